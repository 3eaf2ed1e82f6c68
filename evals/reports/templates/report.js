for (const button of document.querySelectorAll('th button')) button.onclick = () => {
  const head = button.parentNode, body = head.closest('table').tBodies[0], at = head.cellIndex;
  const down = head.getAttribute('aria-sort') === 'ascending';
  for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = row => row.cells[at].dataset.value ?? row.cells[at].textContent;
  const rows = [...body.rows].sort((a, b) => {
    const x = key(a), y = key(b);
    return (x !== '' && y !== '' && !isNaN(x) && !isNaN(y)) ? x - y : x.localeCompare(y);
  });
  body.append(...(down ? rows.reverse() : rows));
};
for (const input of document.querySelectorAll('input')) input.oninput = () => {
  const wanted = input.value.toLowerCase();
  for (const one of document.querySelectorAll(input.dataset.of))
    one.hidden = !one.textContent.toLowerCase().includes(wanted);
};
const pairs = [...document.querySelectorAll('section.pair')];
const [before, after] = document.querySelectorAll('.pick select');
for (const select of [before, after]) if (select) select.onchange = () => {
  const of = (one, other) => pairs.find(pair => pair.dataset.before === one && pair.dataset.after === other);
  if (!of(before.value, after.value) && of(after.value, before.value))
    [before.value, after.value] = [after.value, before.value];
  const chosen = of(before.value, after.value);
  for (const pair of pairs) pair.hidden = pair !== chosen;
  document.querySelector('.pick + .note').hidden = Boolean(chosen);
};
