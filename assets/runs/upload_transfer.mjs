/** The protocol of app/routes/uploads.py: sends chunks, resumable after any interruption. */

const CHUNK_BYTES = 16 << 20;
const STALL_MS = 60_000;
const GIVE_UP_MS = 600_000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const TUS = { 'Tus-Resumable': '1.0.0' };
const TEMPORARY = new Set([0, 408, 409, 423, 425, 429, 500, 502, 503, 504]);

/** An error answer of the server, or a broken connection; `status` 0: no answer arrived. */
export class UploadError extends Error {
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/** Whether to try again automatically after such an answer. @param {number} status */
export function isTemporary(status) {
  return TEMPORARY.has(status);
}

/** Time to wait after a number of failures in a row. @param {number} failures from 1 */
export function waitMs(failures) {
  return WAITS_MS[Math.min(failures, WAITS_MS.length) - 1];
}

async function request(url, method, signal, body) {
  let answer;
  try {
    answer = await fetch(url, { method, signal, body, headers: TUS, credentials: 'same-origin' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new UploadError('The server cannot be reached.', 0);
  }
  if (answer.ok) return answer;
  const reply = await answer.json().catch(() => ({}));  // HEAD has no body, a proxy no JSON
  throw new UploadError(reply.error ?? `The server answered ${answer.status}.`, answer.status);
}

/** Begin an upload; returns its id. @param {import('./chosen_files.mjs').Chosen[]} chosen */
export async function create(app, chosen) {
  const files = chosen.map(({ name, file }) => ({ name, size: file.size }));
  const answer = await request(`${app.base}/api/uploads`, 'POST', undefined, JSON.stringify({ files }));
  return (await answer.json()).id;
}

/** The server's status of an upload; null if the server does not know it (any more). */
export async function uploadStatus(app, id, signal) {
  try {
    return await (await request(`${app.base}/api/uploads/${id}`, 'GET', signal)).json();
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** Remove an upload from the server. */
export async function remove(app, id) {
  await request(`${app.base}/api/uploads/${id}`, 'DELETE').catch((error) => {
    if (error.status !== 404) throw error;
  });
}

async function offsetOf(url, signal) {
  return Number((await request(url, 'HEAD', signal)).headers.get('Upload-Offset'));
}

/** One PATCH; resolves to the new offset. Uses XMLHttpRequest, as fetch reports no upload progress. */
function patch(url, blob, offset, signal, onBytes) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    const part = blob.slice(offset, offset + CHUNK_BYTES);
    let stallTimer = 0;
    const restartStallTimer = () => {
      clearTimeout(stallTimer);
      stallTimer = setTimeout(() => xhr.abort(), STALL_MS);
    };
    const onAbort = () => xhr.abort();
    xhr.open('PATCH', url);
    for (const [key, value] of Object.entries(TUS)) xhr.setRequestHeader(key, value);
    xhr.setRequestHeader('Upload-Offset', String(offset));
    xhr.setRequestHeader('Content-Type', 'application/offset+octet-stream');
    xhr.upload.onprogress = (event) => { restartStallTimer(); onBytes(offset + event.loaded); };
    xhr.onloadend = () => {
      clearTimeout(stallTimer);
      signal.removeEventListener('abort', onAbort);
      if (xhr.status === 204) { resolve(Number(xhr.getResponseHeader('Upload-Offset'))); return; }
      let body = {};
      try { body = JSON.parse(xhr.responseText); } catch { /* a proxy answered, or nothing did */ }
      const answer = xhr.status ? `The server answered ${xhr.status}.` : 'The connection broke.';
      reject(new UploadError(body.error ?? answer, xhr.status));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    restartStallTimer();
    xhr.send(part);
  });
}

/** Waits; ends early when the network is back, or `hurry` dispatches 'hurry'. */
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

/** Throws if a file has changed or disappeared since it was chosen: sending it again would fail. */
async function checkReadable(blob, offset) {
  try {
    await blob.slice(offset, offset + 1).arrayBuffer();
  } catch {
    throw new UploadError('A file has changed or disappeared since you chose it; choose the files again.', 400);
  }
}

/**
 * Send all bytes after those that the server has, through broken connections and restarts.
 * Throws an UploadError if the error is permanent, or if nothing went through for 10 minutes.
 * @param {Blob} blob the contents, one file after the other
 * @param {{signal: AbortSignal, hurry: EventTarget, onBytes: (done: number) => void,
 *   onFrom: (offset: number) => void, onBreak: (text: string, waitMs: number) => void}} listener
 */
export async function sendAll(app, id, blob, { signal, hurry, onBytes, onFrom, onBreak }) {
  const url = `${app.base}/api/uploads/${id}`;
  let offset = null;
  let failures = 0;
  let greatestOffset = -1;
  let lastMs = performance.now();
  while (offset === null || offset < blob.size) {
    try {
      if (offset === null) {
        offset = await offsetOf(url, signal);
        onFrom(offset);
      } else offset = await patch(url, blob, offset, signal, onBytes);
      if (offset > greatestOffset) [greatestOffset, failures, lastMs] = [offset, 0, performance.now()];
    } catch (error) {
      signal.throwIfAborted();
      if (!isTemporary(error.status)) throw error;
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
