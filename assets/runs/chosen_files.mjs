/** Files that the user chose or dropped, as a list for one upload. */
import { size } from './run_rows.mjs';

/** @typedef {{name: string, file: File}} Chosen `name` includes the folders of the file */

const SYSTEM_FILES = new Set(['thumbs.db', 'desktop.ini']);

/** Whether a file may be a trace: hidden files and those of the operating system are not. @param {string} name */
function mayBeTrace(name) {
  const parts = name.split('/');
  return !parts.some((part) => part.startsWith('.')) && !SYSTEM_FILES.has(parts.at(-1).toLowerCase());
}

/** Sorted by name, whatever the browser's order: the same choice makes the same byte stream again. */
function inOrder(chosen) {
  return chosen.filter(({ name }) => mayBeTrace(name))
    .sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
}

/** @param {FileList|File[]} files of an input @returns {Chosen[]} */
export function ofInput(files) {
  return inOrder([...files].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
}

function readFile(entry) {
  return new Promise((done, fail) => { entry.file(done, fail); });
}

/** All entries of a folder: the reader returns some at a time and none at the end. */
async function entriesIn(folder) {
  const reader = folder.createReader();
  const entries = [];
  for (;;) {
    const batch = await new Promise((done, fail) => { reader.readEntries(done, fail); });
    if (!batch.length) return entries;
    entries.push(...batch);
  }
}

async function filesBelow(entry) {
  const name = entry.fullPath.replace(/^\//, '');
  if (!mayBeTrace(name)) return [];
  if (entry.isFile) return [{ name, file: await readFile(entry) }];
  return (await Promise.all((await entriesIn(entry)).map(filesBelow))).flat();
}

/**
 * Dropped files and folders with their contents. Call it during the event: its items are gone afterwards.
 * @param {DataTransfer} dropped @returns {Promise<Chosen[]>}
 */
export async function ofDrop(dropped) {
  const entries = [...dropped.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return ofInput(dropped.files);
  return inOrder((await Promise.all(entries.map(filesBelow))).flat());
}

/** @param {Chosen[]} chosen */
export function totalBytes(chosen) {
  return chosen.reduce((sum, { file }) => sum + file.size, 0);
}

/** Why a choice cannot be uploaded, null if it can. */
export function refusal(chosen, limitBytes) {
  const total = totalBytes(chosen);
  if (chosen.length === 0) return 'There is no file in what you chose.';
  if (total === 0) return 'These files are empty; choose trace files.';
  if (total > limitBytes) {
    return `These files have ${size(total)}, more than the limit of ${size(limitBytes)}; use `
      + 'rankscope import on the server.';
  }
  return null;
}

/** Title of the upload: its only file, the common folder, else the number of files. @param {Chosen[]} chosen */
export function title(chosen) {
  if (chosen.length === 1) return chosen[0].name;
  const tops = new Set(chosen.map(({ name }) => name.split('/')[0]));
  return tops.size === 1 ? [...tops][0] : `${chosen.length} files`;
}

/** Two 32-bit FNV-1a hashes: crypto.subtle is not available on plain HTTP. */
function hash(text) {
  const bytes = new TextEncoder().encode(text);
  return [0x811c9dc5, 0x9e3779b9].map((seed) => {
    let value = seed;
    for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
    return value.toString(16).padStart(8, '0');
  }).join('');
}

/** Identifies the same files again, by names, sizes and modification times. @param {Chosen[]} chosen */
export function fingerprint(chosen) {
  return hash(JSON.stringify(chosen.map(({ name, file }) => [name, file.size, file.lastModified])));
}
