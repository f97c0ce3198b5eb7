/** Files that somebody chose or dropped, as a list for one upload. */
import { size } from './run_rows.mjs';

/** @typedef {{name: string, file: File}} Chosen `name` holds the folders it lay in */

const NO_TRACES = new Set(['thumbs.db', 'desktop.ini']);

/** Hidden files and what systems leave in folders are no traces. @param {string} name */
function isMeant(name) {
  const parts = name.split('/');
  return !parts.some((part) => part.startsWith('.')) && !NO_TRACES.has(parts.at(-1).toLowerCase());
}

/** In one order, whatever the browser's: so that the same choice is the same stream again. */
function inOrder(chosen) {
  return chosen.filter(({ name }) => isMeant(name))
    .sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
}

/** @param {FileList|File[]} files of an input @returns {Chosen[]} */
export function ofInput(files) {
  return inOrder([...files].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
}

function readFile(entry) {
  return new Promise((done, fail) => { entry.file(done, fail); });
}

/** All entries of a folder: a reader gives some at a time, and none at the end. */
async function entriesIn(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, fail) => { reader.readEntries(done, fail); });
    if (!some.length) return found;
    found.push(...some);
  }
}

async function below(entry) {
  const name = entry.fullPath.replace(/^\//, '');
  if (!isMeant(name)) return [];
  if (entry.isFile) return [{ name, file: await readFile(entry) }];
  return (await Promise.all((await entriesIn(entry)).map(below))).flat();
}

/**
 * Files and folders, with all they hold. To be called in the event: its items are gone after it.
 * @param {DataTransfer} dropped @returns {Promise<Chosen[]>}
 */
export async function ofDrop(dropped) {
  const entries = [...dropped.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return ofInput(dropped.files);
  return inOrder((await Promise.all(entries.map(below))).flat());
}

/** @param {Chosen[]} chosen */
export function totalBytes(chosen) {
  return chosen.reduce((sum, { file }) => sum + file.size, 0);
}

/** What is wrong with a choice before anything is sent, null where nothing is. */
export function refusal(chosen, limitBytes) {
  const total = totalBytes(chosen);
  if (chosen.length === 0) return 'There is no file in what you chose.';
  if (total === 0) return 'These files are empty; choose trace files.';
  if (total > limitBytes) {
    return `These files have ${size(total)}, more than the ${size(limitBytes)} taken here; use `
      + 'rankscope import on the server.';
  }
  return null;
}

/** What it is called: its one file, the folder all came from, else how many. @param {Chosen[]} chosen */
export function title(chosen) {
  if (chosen.length === 1) return chosen[0].name;
  const tops = new Set(chosen.map(({ name }) => name.split('/')[0]));
  return tops.size === 1 ? [...tops][0] : `${chosen.length} files`;
}

/** Two 32-bit FNV-1a hashes: crypto.subtle is not there on plain HTTP. */
function hash(text) {
  const bytes = new TextEncoder().encode(text);
  return [0x811c9dc5, 0x9e3779b9].map((seed) => {
    let value = seed;
    for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
    return value.toString(16).padStart(8, '0');
  }).join('');
}

/** The same for the same files, by names, sizes and times of change. @param {Chosen[]} chosen */
export function fingerprint(chosen) {
  return hash(JSON.stringify(chosen.map(({ name, file }) => [name, file.size, file.lastModified])));
}
