// What the server says of a question, in the page's language: how it was read, what it asks back. It writes in English.

import { t } from "../i18n";
import type { Key } from "../i18n/en";

const known: [RegExp, Key][] = [
  [/^only pages of the space (.+)$/, "note.only.space"],
  [/^first pages of the space (.+)$/, "note.first.space"],
  [/^only pages labelled (.+)$/, "note.only.labelled"],
  [/^first pages labelled (.+)$/, "note.first.labelled"],
  [/^only pages whose title has (.+)$/, "note.only.title"],
  [/^first pages whose title has (.+)$/, "note.first.title"],
  [/^the page “(.+)” before others$/, "note.page"],
  [/^passages with the words “(.+)” before others$/, "note.phrase"],
  [/^(.+) is looked for as a whole$/, "note.whole"],
  [/^read '(.+)' as '(.+)'$/, "note.read"],
  [/^Read “([^“”]+)” as “([^“”]+)”\.$/, "note.read"],
  [/^You can ask, for example:$/, "welcome.examples"],
  [/^The page that comes closest:$/, "none.best"],
  [/^Which part should I explain\?$/, "back.part"],
  [/^Which one should I go deeper on\?$/, "back.deeper"],
  [/^I’m not sure which feature you mean\. Are you asking about (.+)\? If not, tell me the feature name\.$/, "back.unsure"],
  [/^I think you mean (.+)\. Is that right\?$/, "back.one"],
  [/^Do you mean (.+) or (.+)\?$/, "back.two"],
  [/^Look for (.+) as typed$/, "back.typed"],
  [/^asked as two questions: “(.+)”, “(.+)”$/, "note.two"],
  [/^Hello\. Ask a question about the pages\.$/, "said.greeting"],
  [/^You are welcome\. Ask more about the pages whenever you like\.$/, "said.thanks"],
  [/^Goodbye\. Ask about the pages whenever you like\.$/, "said.farewell"],
  [/^Sorry about that\. Say what is wrong by its name: the page, product, setting or error message\.$/, "said.complaint"],
  [/^Nothing was done: this only answers questions from the pages\.$/, "said.command"],
  [/^Ask a question about the pages: name the product, setting, rule or error message\.$/, "said.help"],
  [/^It works\. Ask a question about the pages\.$/, "said.test"],
  [/^No page holds these letters\. Ask a question in words\.$/, "said.noise"],
  [/^This asks to answer by other rules than the pages'\. Ask what the pages tell\.$/, "said.order"],
  [/^This has no words to look for\. Ask a question in words\.$/, "said.empty"],
];

/** Return a line in the page's language, or as the server wrote it where it is another one. */
export function told(note: string): string {
  for (const [pattern, key] of known) {
    const found = pattern.exec(note);
    if (found) return t(key, { 0: found[1]!, 1: found[2] ?? "" });
  }
  return note;
}
