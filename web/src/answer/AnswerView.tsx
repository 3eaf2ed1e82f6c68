// An answer: told, closest, or none. Each has its own shape.

import { useContext } from "preact/hooks";
import type { Answer, Citation, Clarification } from "../api/types";
import { known, plural, t } from "../i18n";
import { ask } from "../state/asking";
import { openCitation, openPage } from "../state/viewer";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { About } from "./about";
import { AnswerText } from "./AnswerText";
import { endingNumbers } from "./blocks";
import { moveAmongNumbers } from "./CiteButton";
import { told } from "./notes";
import { SetView } from "./SetView";
import { Sources, webAddress } from "./Sources";

/** Show an answer with what was checked, and its sources. */
export function AnswerView({ answer }: { answer: Answer }) {
  const { outcome, citations, receipt_id: receiptId } = answer;
  return (
    <div class={`answer answer-${outcome}`} onKeyDown={moveAmongNumbers}>
      <Understood answer={answer} />
      {answer.set && <SetView answer={answer} set={answer.set} />}
      {outcome === "told" && !answer.set && <AnswerText text={answer.answer} citations={citations} />}
      {outcome === "closest" && <Closest text={answer.answer} citations={citations} />}
      {outcome === "none" && <None answer={answer} />}
      {isAskingOn(answer) && <Clarified {...answer.clarification!} />}
      {citations.length > 0 && <Checked citations={citations} />}
      <Flags answer={answer} />
      {outcome === "told" && <Sources citations={citations} receiptId={receiptId} />}
    </div>
  );
}

/** Whether an answer ends with a question of its own: which of the things that it told should be told more of. */
function isAskingOn({ clarification, outcome }: Answer): boolean {
  return outcome !== "none" && clarification !== null && clarification.options.some(({ kind }) => kind === "meaning");
}

/** Show how the question was read, where that isn't plain. */
function Understood({ answer }: { answer: Answer }) {
  const { understood, clarification, outcome } = answer;
  const isClarified = clarification !== null && outcome !== "none" && !isAskingOn(answer);
  const notes = isClarified ? [] : (answer.notes ?? []);
  if (!understood && !isClarified && !notes.length) return null;
  return (
    <div class="understood">
      {understood && (
        <p>
          {t("understood")} <q dir="auto">{understood}</q>
        </p>
      )}
      {isClarified && <Clarified {...clarification} />}
      {notes.map((note) => (
        <p key={note} dir="auto">
          {told(note)}
        </p>
      ))}
    </div>
  );
}

/** Say how many quotes were found on their pages, and how exactly. */
export function Checked({ citations }: { citations: Citation[] }) {
  const exact = citations.filter(({ verification }) => verification === "exact").length;
  const ocr = citations.filter(({ verification }) => verification === "ocr").length;
  const count = citations.length;
  return (
    <p class="checked-line">
      <Icon name="verified" />
      <span>
        {plural("checked", count, { exact })}
        {exact + ocr < count && ` ${t("checked.rest")}`}
        {ocr > 0 && ` ${t("checked.ocr", { ocr })}`}
      </span>
    </p>
  );
}

/** Show passages that may answer, apart from answers: the line that says so, in the page's language, then each with its place. */
export function Closest({ text, citations }: { text: string; citations: Citation[] }) {
  const passages = text.split("\n\n").slice(1);
  return (
    <>
      <p class="outcome-line" dir="auto">
        <Icon name="near" />
        <strong>{t("closest")}</strong>
      </p>
      <ol role="list" class="passages">
        {groupsOf(passages).map((group, at) => (
          <PassageFound key={at} text={group} citations={citations} />
        ))}
      </ol>
    </>
  );
}

function PassageFound({ text, citations }: { text: string; citations: Citation[] }) {
  const about = useContext(About);
  const numbers = endingNumbers(text);
  const citation = citations.find(({ index }) => numbers.includes(index));
  return (
    <li class="passage">
      {citation && (
        <p class="passage-head">
          <button type="button" class="cited-open" onClick={() => openCitation(citation, about)}>
            <span dir="auto">{citation.heading_path.join(" → ") || citation.title}</span>
          </button>
          <bdi class="faint">{citation.space}</bdi>
          {citation.verification === "ocr" && <span class="faint">{t("verification.ocr", { confidence: citation.ocr_confidence ?? "" })}</span>}
        </p>
      )}
      <AnswerText text={text} citations={citations} />
      {citation && <p class="printed">{citation.url}</p>}
    </li>
  );
}

/** Return the passages: paragraphs up to one that ends with a number belong together. */
function groupsOf(paragraphs: string[]): string[] {
  const groups: string[] = [];
  let open: string[] = [];
  for (const paragraph of paragraphs) {
    open.push(paragraph);
    if (!endingNumbers(paragraph).length) continue;
    groups.push(open.join("\n\n"));
    open = [];
  }
  if (open.length) groups.push(open.join("\n\n"));
  return groups;
}

/** Say why there is no answer, and what can be asked or read instead. */
function None({ answer }: { answer: Answer }) {
  const { clarification, refusal, status } = answer;
  const isSearch = status === "not_found" || status === "needs_more_context";
  return (
    <div class="none">
      <p class="outcome-line" dir="auto">
        <Icon name={isSearch ? "none" : "info"} />
        <strong>{isSearch ? t("none") : told(answer.answer)}</strong>
      </p>
      {isSearch && refusal && <p class="faint">{t(reasonOf(refusal.gate))}</p>}
      {clarification && <Clarified {...clarification} isTold={clarification.text === answer.answer} />}
      {refusal?.best && (
        <p>
          {t("none.best")}{" "}
          <button type="button" class="cited-open" onClick={() => openPage(pageOf(refusal.best!.chunk_id), refusal.best!.chunk_id)}>
            <span dir="auto">{refusal.best.title}</span>
          </button>
        </p>
      )}
    </div>
  );
}

/** Show what can be asked or read instead; `isTold`: the text stands above already. */
function Clarified({ text, options, isTold }: Clarification & { isTold?: boolean }) {
  return (
    <div class="options" role="group" aria-label={told(text)}>
      {!isTold && <p dir="auto">{told(text)}</p>}
      {options.map((option) => (
        <Option key={option.label} {...option} />
      ))}
    </div>
  );
}

function Option({ label, query, url }: { label: string; query: string | null; url: string | null }) {
  const address = url && webAddress(url);
  if (query)
    return (
      <Button icon="ask" onClick={() => ask(query)}>
        <span dir="auto">{told(label)}</span>
      </Button>
    );
  return address ? (
    <a class="button button-plain" href={address} target="_blank" rel="noopener noreferrer">
      <span dir="auto">{label}</span> <Icon name="external" />
    </a>
  ) : (
    <span dir="auto">{label}</span>
  );
}

/** Show in words what was degraded, or is doubtful. */
function Flags({ answer }: { answer: Answer }) {
  const flags = (answer.why?.flags ?? []).filter(({ flag }) => flag !== "closest_passage");
  if (!flags.length) return null;
  return (
    <ul role="list" class="flags">
      {flags.map(({ flag, text }) => (
        <li key={flag}>
          <Icon name="caution" /> {known(`why.flag.${flag}`, text)}
        </li>
      ))}
    </ul>
  );
}

const reasons = {
  passages: "none.passages",
  similarity: "none.near",
  coverage: "none.near",
  verification: "none.verification",
  confidence: "none.doubtful",
  ocr: "none.ocr",
  no_sentence: "none.doubtful",
  declined: "none.doubtful",
} as const;

function reasonOf(gate: string) {
  return reasons[gate as keyof typeof reasons] ?? "none.other";
}

function pageOf(chunkId: string): string {
  return chunkId.split(":").slice(0, -2).join(":");
}
