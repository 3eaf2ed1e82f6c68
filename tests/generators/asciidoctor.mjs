// Prints the ids that Asciidoctor gives the headings of the corpus: node asciidoctor.mjs FOLDER (npm i @asciidoctor/core).
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import * as library from '@asciidoctor/core'
const folder = process.argv[2]
const core = typeof library.default === 'function' ? library.default() : (library.default ?? library)
const ids = {}
for (const name of readdirSync(folder).sort()) {
  const html = await core.convert(readFileSync(join(folder, name), 'utf8'), { safe: 'secure' })
  ids[name] = [...html.matchAll(/<h([2-6]) id="([^"]*)"/g)].map((found) => found[2])
}
console.log(JSON.stringify(ids, null, 1))
