// "Why these sources?": the passages that an answer could rest on, how they were ranked, what was left out.

import type { LeftOut, Reason, Why as WhyData, WhyPassage } from "../api/types";
import { t, type Key } from "../i18n";
import { viewerEn } from "../i18n/viewer.en";
import { openPage } from "../state/viewer";
import { Icon } from "../ui/Icon";
import "./views.css";

const STAGES = ["dense", "lexical", "page", "sentence", "rerank", "final"] as const;

/** Show why an answer rests on its passages. */
export function Why({ why }: { why: WhyData }) {
  return (
    <section class="why" aria-label={t("why.label")}>
      {why.flags.length > 0 && (
        <ul role="list" class="why-flags">
          {why.flags.map(({ flag, text }) => (
            <li key={flag}>
              <Icon name="caution" />
              <Words known={`why.flag.${flag}`} line={text} />
            </li>
          ))}
        </ul>
      )}
      <h3>{t("why.passages")}</h3>
      <p class="why-intro">{t("why.intro")}</p>
      <ol role="list" class="why-passages">
        {why.passages.map((passage) => (
          <Passage key={passage.chunk_id} passage={passage} />
        ))}
      </ol>
      {why.left_out.length > 0 && (
        <details class="why-left">
          <summary>{t("why.left", { count: why.left_out.length })}</summary>
          <ul role="list">
            {why.left_out.map((passage) => (
              <Left key={passage.chunk_id} passage={passage} />
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Passage({ passage }: { passage: WhyPassage }) {
  return (
    <li class="why-passage">
      <div class="why-words">
        <p class="why-number">{passage.cited ? t("why.cited", { number: passage.index ?? passage.passage }) : t("why.read")}</p>
        <Opener {...passage} />
        <p class="why-reasons">
          <Reasons reasons={passage.reasons} line={passage.why} />
        </p>
      </div>
      <Scores scores={passage.scores} />
    </li>
  );
}

function Opener({ page_id, chunk_id, title, heading_path, space }: Pick<WhyPassage, "page_id" | "chunk_id" | "title" | "heading_path"> & { space?: string }) {
  return (
    <p>
      <button type="button" class="view-link" onClick={() => openPage(page_id, chunk_id)}>
        <bdi>{heading_path.length ? heading_path.join(" → ") : title}</bdi>
      </button>{" "}
      {space && <bdi class="why-space">{space}</bdi>}
    </p>
  );
}

/** The scores are relative to the best of the question: the longest bar of a stage is 100. */
function Scores({ scores }: { scores: Record<string, number> }) {
  const ran = STAGES.filter((stage) => scores[stage] !== undefined);
  if (!ran.length) return null;
  return (
    <table class="why-scores">
      <caption class="hidden">{t("why.scores")}</caption>
      <tbody>
        {ran.map((stage) => {
          const percent = Math.round(100 * Math.min(1, Math.max(0, scores[stage]!)));
          return (
            <tr key={stage}>
              <th scope="row">{t(`why.stage.${stage}`)}</th>
              <td class="why-track">
                <span class="why-bar" style={{ inlineSize: `${percent}%` }} />
              </td>
              <td class="why-value">{percent}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** The server's English line stands in where a reason is not known here. */
function Reasons({ reasons, line }: { reasons: Reason[]; line: string }) {
  const keys = reasons.map(({ code }) => `why.reason.${code}`);
  if (!reasons.length || !keys.every(isKnown)) return <span lang="en">{line}</span>;
  return (
    <>
      {reasons.map((reason, place) => (
        <span key={reason.code} class="why-reason" dir="auto">
          {t(keys[place] as Key, { words: (reason.words ?? []).map((word) => `“${word}”`).join(", "), rank: reason.rank ?? "" })}
        </span>
      ))}
    </>
  );
}

function Left({ passage }: { passage: LeftOut }) {
  return (
    <li>
      <Opener {...passage} />
      <p class="why-reasons">
        <Words known={`why.left.${passage.reason}`} line={passage.why} />
      </p>
    </li>
  );
}

function Words({ known, line }: { known: string; line: string }) {
  return isKnown(known) ? <span>{t(known)}</span> : <span lang="en">{line}</span>;
}

function isKnown(key: string): key is Key & keyof typeof viewerEn {
  return Object.hasOwn(viewerEn, key);
}
