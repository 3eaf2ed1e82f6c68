// Prints the ids that Docusaurus' own plugin gives headings: node docusaurus.mjs FOLDER (npm i @docusaurus/mdx-loader remark-parse).
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { unified } from 'unified'
import parse from 'remark-parse'
import { visit } from 'unist-util-visit'
import headings from '@docusaurus/mdx-loader/lib/remark/headings/index.js'
// The theme shows a heading of the first level without its id.
const folder = process.argv[2]
const plugin = headings.default ?? headings
const ids = {}
for (const name of readdirSync(folder).sort()) {
  const processor = unified().use(parse).use(plugin, { anchorsMaintainCase: false })
  const tree = await processor.run(processor.parse(readFileSync(join(folder, name), 'utf8')))
  ids[name] = []
  visit(tree, 'heading', (node) => { if (node.depth > 1) ids[name].push(node.data.id) })
}
console.log(JSON.stringify(ids, null, 1))
