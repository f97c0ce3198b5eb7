/** Buttons, progress and outcome of uploading files and folders, chosen or dropped on the page. */
import { make } from '../lib/dom.mjs';
import { emptyView, formatUrl } from '../lib/view_state.mjs';
import { ofDrop, ofInput } from './chosen_files.mjs';
import { size } from './run_rows.mjs';
import { progressText } from './upload_rate.mjs';
import { sessionOf } from './upload_session.mjs';

const MOST_LISTED = 6;
const UNREADABLE = 'This browser cannot read what you dropped; choose the files instead.';
const SPEAK_EVERY_MS = 10_000;

function listed(title, texts) {
  if (!texts.length) return [];
  const more = texts.length - MOST_LISTED;
  const items = texts.slice(0, MOST_LISTED).map((text) => make('li', { text }));
  if (more > 0) items.push(make('li', { text: `and ${more} more` }));
  return [make('h3', { text: title }), make('ul', {}, items)];
}

function hours(number) {
  return number >= 1 ? `${Number(number.toPrecision(2))} h` : `${Math.ceil(number * 60)} min`;
}

/** Two sentences about a state, the second one as a detail. @param {import('./upload_session.mjs').State} state */
export function stateMessages(state) {
  const name = state.title ?? 'the files';
  const amount = progressText(state.done, state.total, state.rate);
  switch (state.phase) {
    case 'sending':
      return [`Sending ${name}`, state.from ? `${amount}; ${size(state.from)} were already here` : amount];
    case 'broken':
      return [`${state.text} Continuing ${name} in ${Math.ceil(state.waitMs / 1000)} s.`, amount];
    case 'elsewhere':
      return [`${name} is being sent by another page`, amount];
    case 'partly':
      return [`${size(state.done)} of ${size(state.total)} of ${name} received`,
        `Choose or drop the same files again to send the rest; the received part is kept for ${hours(state.keepHours)}.`];
    case 'queued':
      return [`${name} waits until another import is done`, 'The upload is complete: you can close this page.'];
    case 'reading':
      return [state.file && state.file !== name ? `Reading ${name}: ${state.file}` : `Reading ${name}`, `${amount ? `Read so far: ${amount}. ` : ''}The upload is complete: you can close this page.`];
    case 'waiting':
      return [`${name}: ${state.text}`, 'You can close this page.'];
    case 'cancelled':
      if (!state.isOver) return [`Cancelling ${name}`, ''];
      return [`Cancelled ${name}; ${state.removed ? 'the server kept nothing of it' : 'the server could not be reached and removes the received part later'}.`, ''];
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
  const lead = isKnown ? 'These files were already here: ' : 'Imported: ';
  return make('div', { class: 'upload-outcome' }, [make('p', {}, [lead, openRun(app, run)]),
    ...listed('Problems', problems), ...listed('Guessed', guesses)]);
}

/** Buttons, progress and outcome of the page's upload. */
class Panel {
  constructor(app, session, choose) {
    this.app = app;
    this.session = session;
    this.choose = choose;
    this.drawnPhase = '';
    this.spokenMs = 0;
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
    const isNew = state.phase !== this.drawnPhase;
    if (isNew) this.#rebuild(state);
    const [sentence, more] = stateMessages(state);
    this.title.textContent = sentence;
    this.detail.textContent = more;
    this.#link(state);
    this.bar.setAttribute('aria-label', sentence);
    if (state.total && !['queued', 'waiting'].includes(state.phase)) this.bar.value = state.done / state.total;
    else this.bar.removeAttribute('value');
    this.#speak(state, isNew, sentence, more);
  }

  /** Link to what is read so far, while the rest is read. */
  #link({ phase, shown }) {
    this.shown.hidden = phase !== 'reading' || !shown;
    if (this.shown.hidden || this.shown.dataset.run === shown) return;
    this.shown.dataset.run = shown;
    this.shown.replaceChildren('What is read so far: ', openRun(this.app, shown));
  }

  /** Screen readers get every new phase at once, and progress every 10 s. */
  #speak(state, isNew, sentence, more) {
    if (state.phase === 'failed') { this.alert.textContent = sentence; return; }
    if (isNew) this.alert.textContent = '';
    if (!isNew && performance.now() - this.spokenMs < SPEAK_EVERY_MS) return;
    this.spokenMs = performance.now();
    this.status.textContent = state.phase === 'done' ? `Imported: ${state.result.run}` : `${sentence}. ${more}`;
  }

  #rebuild(state) {
    const hadFocus = this.buttons.contains(document.activeElement);
    this.drawnPhase = state.phase;
    this.box.className = `upload ${state.phase}`;
    this.title.className = state.phase === 'failed' ? 'fault' : '';
    const hasBar = ['sending', 'broken', 'partly', 'elsewhere', 'queued', 'reading', 'waiting'].includes(state.phase);
    this.buttons.replaceChildren(...this.#buttonsOf(state));
    const text = make('div', { class: 'upload-outcome' }, [this.title, this.detail, this.shown]);
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
      case 'failed': return [...(state.canResume ? [button('Try again', () => session.resume())] : []), close()];
      default: return [close()];
    }
  }
}

function fileInput(attributes, onChosen) {
  const input = make('input', { type: 'file', multiple: true, hidden: true, ...attributes });
  input.addEventListener('change', () => {
    const chosen = ofInput(input.files);
    input.value = '';  // so that the same files can be chosen again
    onChosen(chosen);
  });
  return input;
}

/**
 * @param {import('../lib/app.mjs').App} app @param {number} limitBytes
 * @param {() => void} onDone called when a run was imported
 */
export function uploadPanel(app, limitBytes, onDone) {
  const session = sessionOf(app);
  const start = (chosen) => session.start(chosen, limitBytes);
  const files = fileInput({}, start);
  const folder = fileInput({ webkitdirectory: true }, start);
  const choose = { files: () => files.click(), folder: () => folder.click() };
  const panel = new Panel(app, session, choose);
  const buttons = [
    ['Import files', choose.files, 'Choose trace files of one job, or drop them on this page'],
    ['Import a folder', choose.folder, 'Choose a folder with trace files of one job, or drop it on this page'],
  ].map(([text, act, title]) => {
    const button = make('button', { type: 'button', text, title });
    button.addEventListener('click', act);
    return button;
  });
  const dropText = make('p');
  const drop = make('div', { class: 'drop', hidden: true }, [dropText]);
  document.body.append(drop);

  const onChange = () => {
    const before = panel.drawnPhase;
    panel.draw();
    for (const button of buttons) button.disabled = session.isBusy;
    if (session.state.phase === 'done' && before !== 'done' && before !== '') onDone();
  };
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  const handlers = {
    dragover: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      dropText.textContent = session.isBusy ? 'One upload at a time: wait for the current one, or cancel it.'
        : 'Drop trace files or a folder of one job to import them as a run.';
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
    buttons,
    panel: make('div', {}, [files, folder, panel.place]),
    destroy() {
      drop.remove();
      session.removeEventListener('change', onChange);
      for (const [type, handler] of Object.entries(handlers)) document.removeEventListener(type, handler);
    },
  };
}
