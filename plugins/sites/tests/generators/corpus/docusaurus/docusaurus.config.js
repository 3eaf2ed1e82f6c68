module.exports = {
  title: 'Corpus',
  url: 'https://example.org',
  baseUrl: '/site/',
  onBrokenLinks: 'warn',
  onBrokenAnchors: 'ignore',
  presets: [['classic', { docs: { sidebarPath: './sidebars.js' }, blog: false }]],
}
