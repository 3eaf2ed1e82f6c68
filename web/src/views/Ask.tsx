// The view that asks and reads.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { TurnView } from "../answer/TurnView";
import { Composer } from "../ask/Composer";
import { Examples, Welcome } from "../ask/Welcome";
import { t } from "../i18n";
import { turns, type Turn } from "../state/turns";

/** A turn's node is made once: a list of 500 isn't compared again for each new turn. */
const nodes = new WeakMap<Turn, JSX.Element>();

/** Show the session's turns above the form, or what this is where there are none. */
export function Ask() {
  const list = turns.value;
  const last = list.at(-1);
  useEffect(() => {
    if (last) document.getElementById(`turn-${last.id}`)?.scrollIntoView({ block: "start" });
  }, [last?.id]);
  return (
    <div class={list.length ? "ask" : "ask ask-empty"}>
      {list.length > 0 && <h1 class="hidden">{t("app.title")}</h1>}
      {list.length ? <div class="turns">{list.map(nodeOf)}</div> : <Welcome />}
      <Composer />
      {!list.length && <Examples />}
    </div>
  );
}

function nodeOf(turn: Turn): JSX.Element {
  const known = nodes.get(turn) ?? <TurnView key={turn.id} turn={turn} />;
  nodes.set(turn, known);
  return known;
}
