'use strict';
// Light and dark, and the page that the data are of.

// Light or dark: as the system has it, until a person chooses.
function themed(page) {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const button = document.getElementById('theme');
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = name === 'dark' ? 'Light' : 'Dark';
    if (page()) page().restyle();
    CHARTS.forEach((chart) => chart.draw());
    document.querySelectorAll('.legend canvas').forEach((it) => it.redraw());
  };
  set(system.matches ? 'dark' : 'light');
  system.addEventListener('change', (event) => set(event.matches ? 'dark' : 'light'));
  button.addEventListener('click', () => set(theme() === 'dark' ? 'light' : 'dark'));
  // Paper is white.
  let before = null;
  addEventListener('beforeprint', () => {
    before = theme();
    set('light');
  });
  addEventListener('afterprint', () => set(before || 'light'));
}

(() => {
  let page = null;
  themed(() => page);
  const data = JSON.parse(document.getElementById('data').textContent);
  page = data.kind === 'sweep' ? new SweepPage(data)
    : new RunPage(data, document.getElementById('lists').textContent.trim());
  window.maracas = page;
})();
