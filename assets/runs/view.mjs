/** The list of runs: drawn from the rows that came with the page, updated every 2 s. */
import { make } from '../lib/dom.mjs';
import { stateText } from '../lib/sentences.mjs';
import { emptyView, formatUrl } from '../lib/view_state.mjs';
import { COLUMNS, filtered, findings, summary } from './run_rows.mjs';
import { uploadPanel } from './upload_panel.mjs';

const POLL_MS = 2000;

function runUrl(app, name) {
  return formatUrl({ ...emptyView(), run: name }, app.base);
}

function stateCell(row) {
  const cell = make('td', { class: 'state-cell' }, [make('span', { class: `state ${row.state}`, text: stateText(row.state) })]);
  if (row.ended && row.ended !== 'finished') {
    cell.append(make('div', { class: 'fault ended', text: row.ended, title: row.ended }));
  }
  return cell;
}

function findingsCell(row) {
  const { text, tone } = findings(row);
  const more = row.num_findings > 1 ? ` +${row.num_findings - 1}` : '';
  const unjudged = row.was_judged ? 'not enough data' : 'its diagnosis has not ended yet';
  const title = row.num_findings === null ? unjudged : text + more;
  return make('td', { class: `run-findings ${tone}`, text: text + more, title, 'data-title': 'Findings' });
}

/** Why a row has only a name yet. */
function aboutUnfinished(row) {
  if (row.state === 'importing') return `${row.importing}: you can already look at what is read so far`;
  if (row.state === 'stored') return 'In the bucket; opening it fetches it, or what is new of it.';
  return 'Indexing; opens automatically.';
}

function rowElement(app, row) {
  const link = make('a', { href: runUrl(app, row.name), text: row.name, title: row.name, 'data-run': row.name });
  const name = make('th', { scope: 'row' }, [link]);
  if (row.num_problems) {
    const files = row.num_problems === 1 ? '1 file set aside' : `${row.num_problems} files set aside`;
    name.append(make('span', { class: 'warn-text', text: files }));
  }
  const cells = [name, stateCell(row)];
  if (['damaged', 'indexing', 'importing', 'stored'].includes(row.state)) {
    const about = row.problem ?? aboutUnfinished(row);
    cells.push(make('td', { colspan: COLUMNS.length + 1, class: row.problem ? 'fault why' : 'quiet why', text: about }));
  } else {
    cells.push(findingsCell(row), ...COLUMNS.map((column) => make('td', {
      class: `${column.number ? 'number' : 'text'} column-${column.key}`, text: column.text(row), 'data-title': column.title,
    })));
  }
  return make('tr', { 'data-state': row.state }, cells);
}

/** @param {HTMLElement} container @param {import('../lib/app.mjs').App} app @param {{rows: Object[], limit_bytes: number, read_only: boolean}} options */
export function mount(container, app, options) {
  let rows = options.rows;
  let drawn = '';
  const filter = make('input', { type: 'search', placeholder: 'Filter runs', 'aria-label': 'Filter runs' });
  const about = make('span', { class: 'quiet', role: 'status' });
  const note = make('span', { class: 'warn-text' });
  const upload = uploadPanel(app, options.limit_bytes, () => refresh());
  const head = make('tr', {}, [
    make('th', { scope: 'col', text: 'Run' }), make('th', { scope: 'col', text: 'State' }),
    make('th', { scope: 'col', text: 'Findings' }),
    ...COLUMNS.map((c) => make('th', { scope: 'col', class: c.number ? 'number' : '', text: c.title, title: c.about })),
  ]);
  const body = make('tbody');
  const nothing = make('p', { class: 'quiet none', hidden: '' });
  const table = make('table', { class: 'runs-table' }, [make('thead', {}, [head]), body]);
  container.replaceChildren(
    make('header', {}, [make('h1', { text: 'Runs' }), about, note, filter, ...(options.read_only ? [] : upload.buttons)]),
    upload.panel,
    make('div', { class: 'scroll' }, [table]), nothing);

  const draw = () => {
    const shown = filtered(rows, filter.value);
    const content = JSON.stringify(shown);
    if (content === drawn) return;
    drawn = content;
    about.textContent = summary(rows, shown);
    const focused = document.activeElement?.dataset?.run;
    body.replaceChildren(...shown.map((row) => rowElement(app, row)));
    if (focused) body.querySelector(`a[data-run="${CSS.escape(focused)}"]`)?.focus();
    table.hidden = shown.length === 0;
    container.classList.toggle('none-yet', rows.length === 0);
    nothing.hidden = shown.length > 0;
    nothing.textContent = rows.length ? `No run matches "${filter.value}".` : 'No runs yet. Start a job as below, or drop trace files on this page.';
  };

  let timer = 0;
  let request = new AbortController();
  const refresh = async () => {
    clearTimeout(timer);
    request.abort();
    request = new AbortController();
    const { signal } = request;
    try {
      rows = (await app.json(`${app.base}/api/runs`, signal)).runs;
      note.textContent = '';
      draw();
    } catch (error) {
      if (signal.aborted) return;
      note.textContent = `The list is not up to date: ${error.message}`;
    }
    if (!signal.aborted && !document.hidden) timer = setTimeout(refresh, POLL_MS);
  };
  const onVisible = () => { if (!document.hidden) refresh(); };
  document.addEventListener('visibilitychange', onVisible);
  filter.addEventListener('input', draw);
  body.addEventListener('click', (event) => {  // the whole row is the link, without a reload
    const link = event.target.closest('tr')?.querySelector('a');
    const isText = String(getSelection()) && !event.target.closest('a');
    if (!link || isText || event.shiftKey) return;
    event.preventDefault();
    if (event.metaKey || event.ctrlKey) window.open(link.href);
    else app.open({ ...emptyView(), run: link.dataset.run });
  });
  draw();
  timer = setTimeout(refresh, POLL_MS);
  return {
    destroy() {
      request.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
      upload.destroy();
    },
  };
}
