// The documentation of Harbourline Desk, as Docusaurus builds it. Citelock reads this file and runs none of it.
module.exports = {
  title: 'Harbourline Desk',
  url: 'https://docs.harbourline.example',
  baseUrl: '/desk/',
  trailingSlash: false,
  i18n: { defaultLocale: 'en', locales: ['en'] },
  presets: [['classic', { docs: { routeBasePath: '/', sidebarPath: './sidebars.js' }, blog: false }]],
}
