// The window "Connect a source", for operators: what the source is, what a test of it shows, the change to confirm, its first sync.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, load } from "../api/client";
import type { ServerStatus, TestedSource } from "../api/types";
import { plural, t, type Key } from "../i18n";
import { announce } from "../state/announcement";
import { go } from "../state/route";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import { useFocus } from "../ui/useFocus";
import { numberOf } from "../viewer/format";

const sites = ["cloud", "datacenter", "docs", "files"] as const;
const schedules = { "*/15 * * * *": "connect.often", "0 * * * *": "connect.hourly", "0 3 * * *": "connect.daily", none: "connect.by_hand" } as const;

/** What a build tells of each part of a first sync, in their order. */
const parts: [Key, string[]][] = [
  ["connect.reading", ["pages"]],
  ["connect.splitting", ["sections", "chunks", "dedup map", "contexts"]],
  ["connect.indexing", ["embeddings", "dense index", "lexical index"]],
  ["connect.publishing", ["generation", "checks", "evaluation", "publish"]],
];
const EVERY_MS = 1_000;

type Fields = Record<string, string>;

/** Show the window; the form is kept while its test is shown. */
export function Connect({ onClose }: { onClose: () => void }) {
  const [fields, setFields] = useState<Fields>({});
  const [tested, setTested] = useState<TestedSource | null>(null);
  const [isWritten, setWritten] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  function post<T>(path: string, body: Fields, then: (found: T) => void): void {
    setBusy(true);
    setFailure("");
    load<T>(path, { method: "POST", body })
      .then(then, (error: unknown) => setFailure((error instanceof ApiError && error.message) || t("error.other")))
      .finally(() => setBusy(false));
  }
  function test(event: SubmitEvent): void {
    event.preventDefault();
    const given = bodyOf(event.currentTarget as HTMLFormElement);
    setFields(given);
    announce("connect.testing");
    post<TestedSource>("/v1/sources/check", given, setTested);
  }
  return (
    <Dialog title={t("connect.title")} onClose={onClose}>
      {!isWritten && <Form isHidden={tested !== null} isBusy={isBusy} onSubmit={test} />}
      {tested && !isWritten && (
        <Tested source={tested}>
          <Button onClick={() => setTested(null)}>{t("connect.back")}</Button>
          {tested.state !== "fail" && (
            <Button kind="primary" icon="check" disabled={isBusy} onClick={() => post("/v1/sources", { ...fields, digest: tested.digest }, () => setWritten(true))}>
              {t("connect.write")}
            </Button>
          )}
        </Tested>
      )}
      {tested && isWritten && <FirstSync name={tested.key} onClose={onClose} />}
      {failure && (
        <Notice kind="danger" alert>
          <span class="connect-words">{failure}</span>
        </Notice>
      )}
    </Dialog>
  );
}

/** Return what the form says, without what is empty. */
function bodyOf(form: HTMLFormElement): Fields {
  const { site = "", readers = "", listed = "", ...more } = Object.fromEntries(new FormData(form)) as Fields;
  const kind = site === "docs" || site === "files" ? site : "confluence";
  return Object.fromEntries(Object.entries({ ...more, kind, readers: readers === "listed" ? listed : readers }).filter(([, value]) => value));
}

function Form({ isHidden, isBusy, onSubmit }: { isHidden: boolean; isBusy: boolean; onSubmit: (event: SubmitEvent) => void }) {
  const [site, setSite] = useState<(typeof sites)[number]>("cloud");
  const [readers, setReaders] = useState("from_source");
  const isWiki = site === "cloud" || site === "datacenter";
  const choice = isWiki || readers !== "from_source" ? readers : ""; // nothing is open to everyone unless somebody says so
  const key = <Field name="key" words="connect.key" placeholder="eng" />;
  return (
    <form class="connect connect-form" hidden={isHidden} onSubmit={onSubmit}>
      <fieldset class="connect-sites connect-wide">
        <legend class="hidden">{t("connect.what")}</legend>
        {sites.map((each) => (
          <label key={each} class="connect-site">
            <input type="radio" name="site" value={each} checked={site === each} onChange={() => setSite(each)} /> {t(`connect.${each}`)}
          </label>
        ))}
      </fieldset>
      {isWiki ? (
        <>
          <Field isWide name="url" words="connect.url" required placeholder={site === "cloud" ? "https://….atlassian.net/wiki" : "https://…"} />
          <Field name="space" words="connect.space" required placeholder="ENG" />
          {key}
          {site === "cloud" && <Field name="user_env" words="connect.user_env" required value="CONFLUENCE_USER" />}
          <Field name="token_env" words="connect.token_env" required value="CONFLUENCE_TOKEN" />
          <p class="view-faint connect-wide">{t("connect.secret")}</p>
        </>
      ) : (
        <>
          <Field isWide name="path" words="connect.path" required placeholder={site === "docs" ? "/srv/docs" : "/srv/files"} />
          {site === "docs" && <Field isWide name="url" words="connect.address" placeholder="https://…" />}
        </>
      )}
      <label class="field">
        {t("connect.readers")}
        <select class="input" name="readers" required value={choice} onChange={(event) => setReaders(event.currentTarget.value)}>
          {isWiki ? <option value="from_source">{t("connect.from_source")}</option> : <option value="" disabled />}
          <option value="everyone">{t("documents.everyone")}</option>
          <option value="listed">{t("connect.listed")}</option>
        </select>
      </label>
      {readers === "listed" && <Field isWide name="listed" words="connect.list" required placeholder="group:staff, user:ann" />}
      <label class="field">
        {t("connect.schedule")}
        <select class="input" name="schedule" key={String(isWiki)}>
          {Object.entries(schedules).map(([cron, words]) => (
            <option key={cron} value={cron} selected={cron === (isWiki ? "*/15 * * * *" : "none")}>
              {t(words)}
            </option>
          ))}
        </select>
      </label>
      {!isWiki && key}
      <div class="row connect-wide">
        <Button type="submit" kind="primary" icon="ask" disabled={isBusy}>
          {t("connect.test")}
        </Button>
        {isBusy && (
          <>
            <span class="spinner" aria-hidden="true" /> {t("connect.testing")}
          </>
        )}
      </div>
    </form>
  );
}

function Field({ words, value, isWide = false, ...rest }: { name: string; words: Key; value?: string; isWide?: boolean; required?: boolean; placeholder?: string }) {
  return (
    <label class={isWide ? "field connect-wide" : "field"}>
      {t(words)}
      <input class="input" dir="ltr" spellcheck={false} autocomplete="off" maxLength={500} defaultValue={value} {...rest} />
    </label>
  );
}

function Tested({ source, children }: { source: TestedSource; children: ComponentChildren }) {
  const { state, detail, mend, extent, diff } = source;
  const shown = useFocus<HTMLDivElement>();
  const kind = ({ ok: "plain", warn: "caution", fail: "danger" } as const)[state];
  return (
    <div class="connect" ref={shown} tabIndex={-1}>
      <Notice kind={kind} icon={state === "ok" ? "check" : "caution"}>
        <p dir="auto">{detail}</p>
        {mend && <p dir="auto">{mend}</p>}
      </Notice>
      {extent && (
        <dl class="facts">
          <Fact name="status.pages" value={numberOf(extent.pages)} />
          <Fact name="connect.readable" value={extent.readers === "everyone" ? t("documents.everyone") : extent.readers} />
          {extent.listed > 0 && <Fact name="connect.narrower" value={t("connect.of", { done: numberOf(extent.restricted), total: numberOf(extent.listed) })} />}
          <Fact name="connect.takes" value={t("connect.cost", { minutes: numberOf(extent.minutes), megabytes: numberOf(extent.megabytes) })} />
        </dl>
      )}
      {state !== "fail" && (
        <>
          <p>{t("connect.confirm")}</p>
          <pre class="diff" dir="ltr" tabIndex={0} role="group" aria-label={t("connect.change")}>
            {diff.split("\n").map((line, place) => (
              <span key={place} class={line.startsWith("+") && !line.startsWith("+++") ? "diff-new" : undefined}>{`${line}\n`}</span>
            ))}
          </pre>
        </>
      )}
      <div class="row">{children}</div>
    </div>
  );
}

function Fact({ name, value }: { name: Key; value: string }) {
  return (
    <div>
      <dt>{t(name)}</dt>
      <dd dir="auto">{value}</dd>
    </div>
  );
}

/** Show how far the first sync is; it is asked for every second. */
function FirstSync({ name, onClose }: { name: string; onClose: () => void }) {
  const [source, setSource] = useState<ServerStatus["sources"][number]>();
  const shown = useFocus<HTMLDivElement>();
  useEffect(() => {
    const timer = setInterval(() => {
      load<ServerStatus>("/v1/status").then(({ sources }) => setSource(sources.find(({ key }) => key === name)), () => undefined);
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [name]);
  const sync = source?.sync;
  const isDone = Boolean(source && !sync && source.last_sync);
  const here = isDone ? parts.length : parts.findIndex(([, steps]) => steps.includes(sync?.step ?? ""));
  useEffect(() => {
    if (isDone) announce("connect.done");
  }, [isDone]);
  return (
    <div class="connect" ref={shown} tabIndex={-1}>
      <p>{t("connect.written", { name })}</p>
      <ol role="list" class="connect-parts">
        {parts.map(([words], place) => (
          <li key={words} class={place > here ? "view-faint" : undefined} aria-current={place === here ? "step" : undefined}>
            {place < here ? <Icon name="check" /> : <span class={place === here ? "spinner" : "connect-later"} aria-hidden="true" />} {t(words)}
            {place === here && sync?.total ? ` ${t("connect.of", { done: numberOf(sync.done ?? 0), total: numberOf(sync.total) })}` : ""}
          </li>
        ))}
      </ol>
      {sync?.step === "failed" && <Notice kind="danger" alert>{sync.error}</Notice>}
      {!isDone && here < 0 && sync?.step !== "failed" && (
        <Notice>
          {t("connect.waiting")} <code>citelock build {name}</code>
        </Notice>
      )}
      {isDone && (
        <Notice icon="check">
          {plural("connect.citable", source?.pages ?? 0)}
        </Notice>
      )}
      <div class="row">
        {isDone && (
          <Button kind="primary" icon="ask" onClick={() => go("/")}>
            {t("nav.ask")}
          </Button>
        )}
        <Button onClick={onClose}>{t("close")}</Button>
      </div>
    </div>
  );
}
