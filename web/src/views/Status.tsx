// The view /status, for operators: what is served, how fresh it is, what does not work.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, load } from "../api/client";
import type { ServerStatus } from "../api/types";
import { known, t } from "../i18n";
import { hasRole, session } from "../state/session";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import { lazy } from "../ui/lazy";
import { Wide } from "../ui/Wide";
import { numberOf, timeOf } from "../viewer/format";
import "./views.css";

const Connect = lazy(() => import("./Connect").then(({ Connect }) => Connect));
const EVERY_MS = 15_000;

/** Show the server's state; it is asked for again every 15 seconds while the page is in view. */
export function Status() {
  const [status, setStatus] = useState<ServerStatus | null>(null);
  const [failure, setFailure] = useState<number | null>(null);
  const [isConnecting, setConnecting] = useState(false);
  const isOperator = hasRole("operator");
  function ask(): void {
    load<ServerStatus>("/v1/status").then(
      (found) => {
        setStatus(found);
        setFailure(null);
      },
      (error: unknown) => setFailure(error instanceof ApiError ? error.status : 0),
    );
  }
  useEffect(() => {
    if (!isOperator) return;
    ask();
    const timer = setInterval(() => document.hidden || ask(), EVERY_MS);
    return () => clearInterval(timer);
  }, [isOperator]);
  return (
    <section class="view" aria-labelledby="status-title">
      <header class="view-head">
        <h1 id="status-title">{t("status.title")}</h1>
        {isOperator && (
          <div class="row">
            {session.value?.features.connect && (
              <Button icon="plus" onClick={() => setConnecting(true)}>
                {t("connect.title")}
              </Button>
            )}
            <Button icon="retry" onClick={ask}>
              {t("status.refresh")}
            </Button>
          </div>
        )}
      </header>
      {!isOperator && <Notice>{t("status.operators_only")}</Notice>}
      {failure !== null && (
        <Notice kind="caution" alert>
          {t(failure === 403 || failure === 404 ? "status.operators_only" : "status.failed")}
        </Notice>
      )}
      {status && isOperator && <Shown status={status} />}
      {isConnecting && (
        <Connect
          onClose={() => {
            setConnecting(false);
            ask();
          }}
        />
      )}
    </section>
  );
}

function Shown({ status }: { status: ServerStatus }) {
  const { generation, phase, models, breakers, degraded } = status;
  const open = breakers.filter((breaker) => breaker.state !== "closed");
  return (
    <>
      <Notice kind={degraded.length || open.length ? "caution" : "plain"} icon={degraded.length || open.length ? "caution" : "check"}>
        <p>{degraded.length || open.length ? t("status.degraded") : t("status.well")}</p>
        {degraded.length > 0 && (
          <ul>
            {degraded.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
      </Notice>
      <dl class="facts">
        <Fact name={t("status.generation")}>
          {generation ? (
            <>
              <code>{generation.id}</code> {timeOf(generation.published_at)}
            </>
          ) : (
            t("status.none")
          )}
        </Fact>
        {generation && <Fact name={t("status.contents")}>{t("status.counts", { pages: numberOf(generation.pages), chunks: numberOf(generation.chunks) })}</Fact>}
        <Fact name={t("status.phase")}>{phase.enabled ? known(`status.phase.${phase.phase}`, String(phase.phase)) : t("status.off")}</Fact>
        <Fact name={t("status.embedder")}>{models.embedder ?? t("status.none")}</Fact>
        <Fact name={t("status.generator")}>{models.generator ?? t("status.none")}</Fact>
        <Fact name={t("status.reranker")}>{models.reranker ?? t("status.none")}</Fact>
        <Fact name={t("status.streams")}>{numberOf(status.streams)}</Fact>
        <Fact name={t("status.server")}>{status.version}</Fact>
      </dl>
      <Sources sources={status.sources} />
      {breakers.length > 0 && <Breakers breakers={breakers} />}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}

function Sources({ sources }: Pick<ServerStatus, "sources">) {
  return (
    <>
      <h2>{t("status.sources")}</h2>
      <Wide class="view-table" label={t("status.sources")}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("status.source")}</th>
              <th scope="col">{t("status.pages")}</th>
              <th scope="col">{t("status.last_sync")}</th>
              <th scope="col">{t("status.newest_page")}</th>
              <th scope="col">{t("status.state")}</th>
            </tr>
          </thead>
          <tbody>
            {sources.map((source) => (
              <tr key={source.key}>
                <th scope="row">
                  <bdi>{source.key}</bdi> <span class="view-faint">{source.kind}</span>
                </th>
                <td>{numberOf(source.pages)}</td>
                <td>{timeOf(source.last_sync) || "–"}</td>
                <td>{timeOf(source.newest_page) || "–"}</td>
                <td>
                  <State ok={!source.overdue && source.sync?.step !== "failed"} word={source.sync ? t(source.sync.step === "failed" ? "connect.failed" : "connect.running") : source.overdue ? t("status.overdue") : source.overdue === null ? t("status.unscheduled") : t("status.fresh")} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <p class="view-faint">{t("status.pages_note")}</p>
    </>
  );
}

function Breakers({ breakers }: Pick<ServerStatus, "breakers">) {
  return (
    <>
      <h2>{t("status.breakers")}</h2>
      <ul role="list" class="view-list">
        {breakers.map(({ name, state }) => (
          <li key={name}>
            <State ok={state === "closed"} word={name} />{" "}
            <span class="view-faint">{t(state === "closed" ? "status.breaker.closed" : state === "open" ? "status.breaker.open" : "status.breaker.trying")}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function State({ ok, word }: { ok: boolean; word: string }) {
  return (
    <span class={ok ? "view-state" : "view-state view-state-bad"}>
      <Icon name={ok ? "check" : "caution"} />
      <bdi>{word}</bdi>
    </span>
  );
}
