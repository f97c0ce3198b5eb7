/** Files into the folder of runs, chosen or dropped anywhere on the page: progress, cancel, result. */
import { element } from '../lib/dom.mjs';
import { emptyView, formatUrl } from '../lib/view_state.mjs';
import { size } from './rows.mjs';
import { transfer } from './transfer.mjs';

const TOLD = 6;

/** What is wrong with a choice of files before anything is sent, null where nothing is. */
export function refusal(files, limitBytes) {
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (files.length === 0) return 'No file was chosen.';
  if (total === 0) return 'These files are empty.';
  if (total > limitBytes) {
    return `These files have ${size(total)}, more than the ${size(limitBytes)} taken here; use `
      + 'rankscope import on the server.';
  }
  return null;
}

function listed(title, texts) {
  if (!texts.length) return [];
  const more = texts.length - TOLD;
  const items = texts.slice(0, TOLD).map((text) => element('li', { text }));
  if (more > 0) items.push(element('li', { text: `and ${more} more` }));
  return [element('h3', { text: title }), element('ul', {}, items)];
}

/**
 * @param {import('../lib/app.mjs').App} app @param {number} limitBytes
 * @param {() => void} onDone called once a run has come in
 */
export function uploadPanel(app, limitBytes, onDone) {
  const input = element('input', { type: 'file', multiple: true, hidden: true });
  const button = element('button', { type: 'button', text: 'Import files', title: 'Trace files of one job, or drop them on this page' });
  const panel = element('div', { class: 'upload', 'aria-live': 'polite', hidden: true });
  const drop = element('div', { class: 'drop', hidden: true }, [
    element('p', { text: 'Drop trace files of one job: they become a run.' })]);
  document.body.append(drop);
  let sending = null;

  const say = (...children) => {
    const close = element('button', { type: 'button', text: 'Close' });
    close.addEventListener('click', () => { panel.hidden = true; });
    panel.hidden = false;
    panel.replaceChildren(...children, close);
  };

  async function send(files) {
    if (sending) return;
    const wrong = refusal(files, limitBytes);
    if (wrong) { say(element('p', { class: 'fault', role: 'alert', text: wrong })); return; }
    sending = new AbortController();
    const names = files.length === 1 ? files[0].name : `${files.length} files`;
    const bar = element('progress', { 'aria-label': `Importing ${names}` });
    const text = element('span', { class: 'quiet', text: `Sending ${names}` });
    const cancel = element('button', { type: 'button', text: 'Cancel' });
    cancel.addEventListener('click', () => sending?.abort());
    panel.hidden = false;
    panel.replaceChildren(text, bar, cancel);
    try {
      const job = await transfer(app, files, sending.signal, ({ phase, done, total }) => {
        text.textContent = total ? `${phase} ${names}: ${size(done)} of ${size(total)}` : `${phase} ${names}`;
        if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute('value');
      });
      const link = element('a', {
        href: formatUrl({ ...emptyView(), run: job.run }, app.base), text: job.run });
      link.addEventListener('click', (event) => {
        if (event.metaKey || event.ctrlKey) return;
        event.preventDefault();
        app.open({ ...emptyView(), run: job.run });
      });
      const said = job.is_known ? 'These files were here already: ' : 'Imported: ';
      say(element('div', {}, [element('p', {}, [said, link]),
        ...listed('Left out', job.problems), ...listed('Guessed', job.guesses)]));
      onDone();
    } catch (error) {
      const tone = sending.signal.aborted ? 'quiet' : 'fault';
      say(element('p', { class: tone, role: 'alert', text: sending.signal.aborted ? 'Cancelled; nothing was kept.' : error.message }));
    } finally {
      sending = null;
      input.value = '';
    }
  }

  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  const handlers = {
    dragover: (event) => { if (hasFiles(event)) { event.preventDefault(); drop.hidden = false; } },
    dragleave: (event) => { if (!event.relatedTarget) drop.hidden = true; },
    drop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      drop.hidden = true;
      send([...event.dataTransfer.files]);
    },
  };
  for (const [type, handler] of Object.entries(handlers)) document.addEventListener(type, handler);
  button.addEventListener('click', () => input.click());
  input.addEventListener('change', () => send([...input.files]));
  return {
    button,
    panel: element('div', { class: 'upload-place' }, [input, panel]),
    destroy() {
      drop.remove();
      for (const [type, handler] of Object.entries(handlers)) document.removeEventListener(type, handler);
    },
  };
}
