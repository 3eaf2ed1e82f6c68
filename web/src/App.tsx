// The frame of the page: its head, the view that the address names, the source beside it.

import { useState } from "preact/hooks";
import { CitationCard } from "./answer/CitationCard";
import { areKeysShown } from "./ask/keys";
import { t } from "./i18n";
import { announcement } from "./state/announcement";
import { route } from "./state/route";
import { foreignTenant, reader, session } from "./state/session";
import { place } from "./state/viewer";
import { lazy } from "./ui/lazy";
import { Ask } from "./views/Ask";
import { Header } from "./views/Header";
import { ForeignTenant } from "./views/ForeignTenant";
import { SignIn } from "./views/SignIn";

const SourceViewer = lazy(() => import("./viewer/SourceViewer").then(({ SourceViewer }) => SourceViewer));
const PageView = lazy(() => import("./viewer/PageView").then(({ PageView }) => PageView));
const SharedAnswer = lazy(() => import("./views/SharedAnswer").then(({ SharedAnswer }) => SharedAnswer));
const Check = lazy(() => import("./views/Check").then(({ Check }) => Check));
const Documents = lazy(() => import("./views/Documents").then(({ Documents }) => Documents));
const Status = lazy(() => import("./views/Status").then(({ Status }) => Status));
const History = lazy(() => import("./views/History").then(({ History }) => History));
const Keys = lazy(() => import("./views/Keys").then(({ Keys }) => Keys));

/** Show the whole page. */
export function App() {
  const [isHistoryShown, showHistory] = useState(false);
  const isSplit = place.value !== null;
  return (
    <>
      <a class="skip" href="#main">
        {t("skip")}
      </a>
      <Header onHistory={() => showHistory(true)} />
      <div class={isSplit ? "workspace workspace-split" : "workspace"}>
        <main id="main" tabIndex={-1}>
          <View />
          <CitationCard />
        </main>
        {isSplit && <SourceViewer />}
      </div>
      {isHistoryShown && <History onClose={() => showHistory(false)} />}
      {areKeysShown.value && <Keys onClose={() => (areKeysShown.value = false)} />}
      <div class="hidden" role="status">
        {announcement}
      </div>
    </>
  );
}

function View() {
  const current = route.value;
  if (!session.value) return null;
  if (!session.value.signed_in) return <SignIn />;
  if (foreignTenant.value !== null) return <ForeignTenant name={foreignTenant.value} />;
  switch (current.view) {
    case "answer":
      return <SharedAnswer receiptId={current.receiptId} />;
    case "page":
      return <PageView pageId={current.pageId} />;
    case "check":
      return <Check key={reader.value} />;
    case "documents":
      return <Documents />;
    case "status":
      return <Status />;
    case "ask":
      return <Ask />;
  }
}
