/** The protocol of app/routes/uploads.py: bytes in pieces, gone on with wherever they stopped. */

const CHUNK_BYTES = 16 << 20;
const STALL_MS = 60_000;
const GIVE_UP_MS = 600_000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const TUS = { 'Tus-Resumable': '1.0.0' };
const PASSING = new Set([0, 408, 409, 423, 425, 429, 500, 502, 503, 504]);

/** Said by the server, or of the connection; `status` 0: no answer came. */
export class UploadError extends Error {
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/** Whether to try again by itself after such an answer. @param {number} status */
export function passes(status) {
  return PASSING.has(status);
}

/** How long to wait before the nth time in a row. @param {number} failures from 1 on */
export function waitMs(failures) {
  return WAITS_MS[Math.min(failures, WAITS_MS.length) - 1];
}

async function asked(url, method, signal, body) {
  let answer;
  try {
    answer = await fetch(url, { method, signal, body, headers: TUS, credentials: 'same-origin' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new UploadError('The server cannot be reached.', 0);
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));  // HEAD has no body, a proxy no JSON
  throw new UploadError(said.error ?? `The server answered ${answer.status}.`, answer.status);
}

/** Begin an upload; returns its id. @param {import('./chosen_files.mjs').Chosen[]} chosen */
export async function create(app, chosen) {
  const files = chosen.map(({ name, file }) => ({ name, size: file.size }));
  const answer = await asked(`${app.base}/api/uploads`, 'POST', undefined, JSON.stringify({ files }));
  return (await answer.json()).id;
}

/** What the server tells of an upload; null where it is not known (any more). */
export async function told(app, id, signal) {
  try {
    return await (await asked(`${app.base}/api/uploads/${id}`, 'GET', signal)).json();
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** Give an upload up: nothing of it is kept. */
export async function remove(app, id) {
  await asked(`${app.base}/api/uploads/${id}`, 'DELETE').catch((error) => {
    if (error.status !== 404) throw error;
  });
}

async function offsetOf(url, signal) {
  return Number((await asked(url, 'HEAD', signal)).headers.get('Upload-Offset'));
}

/** One PATCH; resolves to the new offset. fetch tells nothing of what was sent: XMLHttpRequest. */
function patch(url, blob, offset, signal, onBytes) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const part = blob.slice(offset, offset + CHUNK_BYTES);
    let stalled = 0;
    const alive = () => {
      clearTimeout(stalled);
      stalled = setTimeout(() => request.abort(), STALL_MS);
    };
    const onAbort = () => request.abort();
    request.open('PATCH', url);
    for (const [key, value] of Object.entries(TUS)) request.setRequestHeader(key, value);
    request.setRequestHeader('Upload-Offset', String(offset));
    request.setRequestHeader('Content-Type', 'application/offset+octet-stream');
    request.upload.onprogress = (event) => { alive(); onBytes(offset + event.loaded); };
    request.onloadend = () => {
      clearTimeout(stalled);
      signal.removeEventListener('abort', onAbort);
      if (request.status === 204) { resolve(Number(request.getResponseHeader('Upload-Offset'))); return; }
      let said = {};
      try { said = JSON.parse(request.responseText); } catch { /* a proxy answered, or nobody */ }
      const answer = request.status ? `The server answered ${request.status}.` : 'The connection broke.';
      reject(new UploadError(said.error ?? answer, request.status));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    alive();
    request.send(part);
  });
}

/** Ends early when the network is back, or `hurry` says so. */
export function pause(ms, signal, hurry) {
  return new Promise((done) => {
    const ends = [[window, 'online'], [signal, 'abort'], [hurry, 'hurry']];
    const end = () => {
      clearTimeout(timer);
      for (const [target, type] of ends) target.removeEventListener(type, end);
      done();
    };
    const timer = setTimeout(end, ms);
    for (const [target, type] of ends) target.addEventListener(type, end);
  });
}

/** Raises where a file has changed or gone since it was chosen: no use to send it again. */
async function checkReadable(blob, offset) {
  try {
    await blob.slice(offset, offset + 1).arrayBuffer();
  } catch {
    throw new UploadError('A file has changed or gone since you chose it; choose the files again.', 400);
  }
}

/**
 * Send all bytes from where the server has them, through broken connections and restarts.
 * Throws an UploadError where it makes no sense to go on, or nothing went through for 10 minutes.
 * @param {Blob} blob the contents, one file after the other
 * @param {{signal: AbortSignal, hurry: EventTarget, onBytes: (done: number) => void,
 *   onFrom: (offset: number) => void, onBreak: (text: string, waitMs: number) => void}} listener
 */
export async function sendAll(app, id, blob, { signal, hurry, onBytes, onFrom, onBreak }) {
  const url = `${app.base}/api/uploads/${id}`;
  let offset = null;
  let failures = 0;
  let best = -1;
  let lastMs = performance.now();
  while (offset === null || offset < blob.size) {
    try {
      if (offset === null) {
        offset = await offsetOf(url, signal);
        onFrom(offset);
      } else offset = await patch(url, blob, offset, signal, onBytes);
      if (offset > best) [best, failures, lastMs] = [offset, 0, performance.now()];
    } catch (error) {
      signal.throwIfAborted();
      if (!passes(error.status)) throw error;
      if (offset !== null) await checkReadable(blob, offset);
      failures += 1;
      if (performance.now() - lastMs > GIVE_UP_MS) throw error;
      onBreak(error.message, waitMs(failures));
      await pause(waitMs(failures), signal, hurry);
      signal.throwIfAborted();
      offset = null;
    }
  }
}
