/** Files and folders into the folder of runs, chosen or dropped on the page: what the user sees. */
import { make } from '../lib/dom.mjs';
import { emptyView, formatUrl } from '../lib/view_state.mjs';
import { ofDrop, ofInput } from './chosen_files.mjs';
import { size } from './run_rows.mjs';
import { progressText } from './upload_rate.mjs';
import { sessionOf } from './upload_session.mjs';

const TOLD = 6;
const UNREADABLE = 'What you dropped cannot be read by this browser; choose the files instead.';
const SAY_EVERY_MS = 10_000;

function listed(title, texts) {
  if (!texts.length) return [];
  const more = texts.length - TOLD;
  const items = texts.slice(0, TOLD).map((text) => make('li', { text }));
  if (more > 0) items.push(make('li', { text: `and ${more} more` }));
  return [make('h3', { text: title }), make('ul', {}, items)];
}

function hours(number) {
  return number >= 1 ? `${Number(number.toPrecision(2))} h` : `${Math.ceil(number * 60)} min`;
}

/** What is said of a state: one sentence, and one more in quiet. @param {import('./upload_session.mjs').State} state */
export function words(state) {
  const name = state.title ?? 'the files';
  const amount = progressText(state.done, state.total, state.rate);
  switch (state.phase) {
    case 'sending':
      return [`Sending ${name}`, state.from ? `${amount}; ${size(state.from)} were here already` : amount];
    case 'broken':
      return [`${state.text} Going on with ${name} in ${Math.ceil(state.waitMs / 1000)} s.`, amount];
    case 'elsewhere':
      return [`${name} is being sent by another page`, amount];
    case 'partly':
      return [`${size(state.done)} of ${size(state.total)} of ${name} have come`,
        `Choose or drop the same files again to send the rest; what has come is kept for ${hours(state.keepHours)}.`];
    case 'queued':
      return [`${name} waits until another import is done`, 'All bytes have come: this page may be closed.'];
    case 'reading':
      return [state.file && state.file !== name ? `Reading ${name}: ${state.file}` : `Reading ${name}`, `${amount}${amount ? '; ' : ''}all bytes have come: this page may be closed`];
    case 'waiting':
      return [`${name}: ${state.text}`, 'This page may be closed.'];
    case 'cancelled':
      if (!state.isOver) return [`Giving up ${name}`, ''];
      return [`Given up ${name}; ${state.removed ? 'nothing of it was kept' : 'the server could not be told, and removes what it has when nobody goes on with it'}.`, ''];
    default:
      return [state.text ?? '', ''];
  }
}

function openRun(app, run) {
  const link = make('a', { href: formatUrl({ ...emptyView(), run }, app.base), text: run });
  link.addEventListener('click', (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    app.open({ ...emptyView(), run });
  });
  return link;
}

function outcome(app, { run, is_known: isKnown, problems, guesses }) {
  const said = isKnown ? 'These files were here already: ' : 'Imported: ';
  return make('div', { class: 'upload-told' }, [make('p', {}, [said, openRun(app, run)]),
    ...listed('Problems', problems), ...listed('Guessed', guesses)]);
}

/** Buttons, progress and outcome of the page's upload. */
class Panel {
  constructor(app, session, choose) {
    this.app = app;
    this.session = session;
    this.choose = choose;
    this.drawn = '';
    this.saidMs = 0;
    this.title = make('p');
    this.detail = make('p', { class: 'quiet' });
    this.shown = make('p', { hidden: true });
    this.bar = make('progress', { max: '1' });
    this.buttons = make('div', { class: 'upload-buttons' });
    this.box = make('div', { class: 'upload', hidden: true });
    this.status = make('p', { class: 'visually-hidden', role: 'status' });
    this.alert = make('p', { class: 'visually-hidden', role: 'alert' });
    this.place = make('div', { class: 'upload-place' }, [this.box, this.status, this.alert]);
  }

  draw() {
    const { state } = this.session;
    this.box.hidden = state.phase === 'idle';
    const isNew = state.phase !== this.drawn;
    if (isNew) this.#lay(state);
    const [sentence, more] = words(state);
    this.title.textContent = sentence;
    this.detail.textContent = more;
    this.#link(state);
    this.bar.setAttribute('aria-label', sentence);
    if (state.total && !['queued', 'waiting'].includes(state.phase)) this.bar.value = state.done / state.total;
    else this.bar.removeAttribute('value');
    this.#speak(state, isNew, sentence, more);
  }

  /** Where to look at what is read so far, while the rest is read. */
  #link({ phase, shown }) {
    this.shown.hidden = phase !== 'reading' || !shown;
    if (this.shown.hidden || this.shown.dataset.run === shown) return;
    this.shown.dataset.run = shown;
    this.shown.replaceChildren('What is read so far: ', openRun(this.app, shown));
  }

  /** Screen readers hear of every new phase at once, of progress now and then. */
  #speak(state, isNew, sentence, more) {
    if (state.phase === 'failed') { this.alert.textContent = sentence; return; }
    if (isNew) this.alert.textContent = '';
    if (!isNew && performance.now() - this.saidMs < SAY_EVERY_MS) return;
    this.saidMs = performance.now();
    this.status.textContent = state.phase === 'done' ? `Imported: ${state.result.run}` : `${sentence}. ${more}`;
  }

  #lay(state) {
    const hadFocus = this.buttons.contains(document.activeElement);
    this.drawn = state.phase;
    this.box.className = `upload ${state.phase}`;
    this.title.className = state.phase === 'failed' ? 'fault' : '';
    const hasBar = ['sending', 'broken', 'partly', 'elsewhere', 'queued', 'reading', 'waiting'].includes(state.phase);
    this.buttons.replaceChildren(...this.#buttonsOf(state));
    const text = make('div', { class: 'upload-told' }, [this.title, this.detail, this.shown]);
    this.box.replaceChildren(
      state.phase === 'done' ? outcome(this.app, state.result) : text,
      ...(hasBar ? [this.bar] : []), this.buttons);
    if (hadFocus) this.buttons.querySelector('button')?.focus();
  }

  #buttonsOf(state) {
    const { session } = this;
    const button = (text, act) => {
      const made = make('button', { type: 'button', text });
      made.addEventListener('click', act);
      return made;
    };
    const cancel = () => button('Cancel', () => session.cancel());
    const close = () => button('Close', () => session.close());
    switch (state.phase) {
      case 'sending': case 'queued': case 'reading': case 'waiting': return [cancel()];
      case 'broken': return [button('Try now', () => session.hurry()), cancel()];
      case 'partly': return [button('Choose files', this.choose.files), button('Choose a folder', this.choose.folder),
        button('Discard', () => session.cancel()), close()];
      case 'failed': return [...(state.canGoOn ? [button('Try again', () => session.goOn())] : []), close()];
      default: return [close()];
    }
  }
}

function fileInput(attributes, onChosen) {
  const input = make('input', { type: 'file', multiple: true, hidden: true, ...attributes });
  input.addEventListener('change', () => {
    const chosen = ofInput(input.files);
    input.value = '';  // the same files may be chosen again
    onChosen(chosen);
  });
  return input;
}

/**
 * @param {import('../lib/app.mjs').App} app @param {number} limitBytes
 * @param {() => void} onDone called once a run has come in
 */
export function uploadPanel(app, limitBytes, onDone) {
  const session = sessionOf(app);
  const start = (chosen) => session.start(chosen, limitBytes);
  const files = fileInput({}, start);
  const folder = fileInput({ webkitdirectory: true }, start);
  const choose = { files: () => files.click(), folder: () => folder.click() };
  const panel = new Panel(app, session, choose);
  const ways = [
    ['Import files', choose.files, 'Trace files of one job, or drop them on this page'],
    ['Import a folder', choose.folder, 'A folder of trace files of one job, or drop it on this page'],
  ].map(([text, act, title]) => {
    const button = make('button', { type: 'button', text, title });
    button.addEventListener('click', act);
    return button;
  });
  const dropText = make('p');
  const drop = make('div', { class: 'drop', hidden: true }, [dropText]);
  document.body.append(drop);

  const onChange = () => {
    const before = panel.drawn;
    panel.draw();
    for (const button of ways) button.disabled = session.isBusy;
    if (session.state.phase === 'done' && before !== 'done' && before !== '') onDone();
  };
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  const handlers = {
    dragover: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      dropText.textContent = session.isBusy ? 'One upload at a time: wait for this one, or cancel it.'
        : 'Drop trace files or a folder of one job: they become a run.';
      drop.hidden = false;
    },
    dragleave: (event) => { if (!event.relatedTarget) drop.hidden = true; },
    drop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      drop.hidden = true;
      if (!session.isBusy) ofDrop(event.dataTransfer).then(start, () => session.refuse(UNREADABLE));
    },
  };
  for (const [type, handler] of Object.entries(handlers)) document.addEventListener(type, handler);
  session.addEventListener('change', onChange);
  onChange();
  session.restore();
  return {
    buttons: ways,
    panel: make('div', {}, [files, folder, panel.place]),
    destroy() {
      drop.remove();
      session.removeEventListener('change', onChange);
      for (const [type, handler] of Object.entries(handlers)) document.removeEventListener(type, handler);
    },
  };
}
