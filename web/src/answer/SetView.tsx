// A whole set: its count or value with its rule, and its members as a table that sorts and can be saved.

import { useState } from "preact/hooks";
import type { Answer, SetAnswer, SetMember } from "../api/types";
import { t } from "../i18n";
import { openCitation } from "../state/viewer";
import { Button } from "../ui/Button";
import { Wide } from "../ui/Wide";
import { AnswerText } from "./AnswerText";
import { webAddress } from "./Sources";

/** Show what was counted in words, without the lines of single members, and the members below. */
export function SetView({ answer, set }: { answer: Answer; set: SetAnswer }) {
  const words = answer.answer.split("\n").filter((line) => !line.startsWith("- "));
  return (
    <>
      <AnswerText text={words.join("\n")} citations={[]} />
      {set.groups.length > 0 && <Groups set={set} />}
      {set.members.length > 0 && <Members answer={answer} set={set} />}
    </>
  );
}

function Groups({ set }: { set: SetAnswer }) {
  return (
    <ul>
      {set.groups.map(({ name, count, value }) => (
        <li key={name} dir="auto">
          {name}: {value ?? count}
        </li>
      ))}
    </ul>
  );
}

function Members({ answer, set }: { answer: Answer; set: SetAnswer }) {
  const [order, setOrder] = useState<{ column: string; down: boolean } | null>(null);
  const columns = ["", ...set.columns];
  const rows = order ? sorted(set.members, order.column, order.down) : set.members;
  const sort = (column: string) => setOrder({ column, down: order?.column === column && !order.down });
  const direction = (column: string) => (order?.column === column ? (order.down ? "descending" : "ascending") : "none");
  return (
    <>
      <Wide class="table" label={t("set.table")}>
        <table dir="auto">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col" aria-sort={direction(column)}>
                  <button type="button" class="sort" onClick={() => sort(column)}>
                    {column || t("set.page")}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((member, at) => (
              <tr key={at}>
                <td dir="auto">
                  <Place member={member} answer={answer} />
                </td>
                {set.columns.map((column) => (
                  <td key={column} dir="auto">
                    {member.cells[column]}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {set.total > set.members.length && <p class="quiet">{t("set.first", { count: set.members.length, total: set.total })}</p>}
      <p>
        <Button onClick={() => save(set)}>{t("set.csv")}</Button>
      </p>
    </>
  );
}

/** The page of a member: its quote in the viewer where it has a citation, else a link. */
function Place({ member, answer }: { member: SetMember; answer: Answer }) {
  const cited = answer.citations.find(({ index, quote }) => index === member.citation && member.quote.includes(quote));
  if (cited)
    return (
      <button type="button" class="member" onClick={() => openCitation(cited)}>
        {member.title} [{member.citation}]
      </button>
    );
  const address = webAddress(member.url);
  return address ? (
    <a href={address} target="_blank" rel="noreferrer">
      {member.title}
    </a>
  ) : (
    <>{member.title}</>
  );
}

function sorted(members: SetMember[], column: string, down: boolean): SetMember[] {
  const value = (member: SetMember) => (column ? (member.cells[column] ?? "") : member.title);
  const inOrder = [...members].sort((one, other) => value(one).localeCompare(value(other), undefined, { numeric: true }));
  return down ? inOrder.reverse() : inOrder;
}

function save(set: SetAnswer) {
  const head = ["page", ...set.columns, "quote", "url"];
  const rows = set.members.map((each) => [each.title, ...set.columns.map((column) => each.cells[column] ?? ""), each.quote, each.url]);
  const text = [head, ...rows].map((row) => row.map(field).join(",")).join("\r\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "set.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A field of CSV (RFC 4180); a spreadsheet must not take one for a formula. */
function field(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${safe.replaceAll('"', '""')}"`;
}
