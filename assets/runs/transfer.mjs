/** One upload: the files as one stream, then the import as the server tells of it. */

const LOOK_EVERY_MS = 400;
const MEDIA_TYPE = 'application/x-rankscope-files';

/** Body of an upload: its list of files, then their contents, read from disk as they are sent. */
export function uploadBody(files) {
  const list = new TextEncoder().encode(JSON.stringify(files.map(({ name, size }) => ({ name, size }))));
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, list.length, true);
  return new Blob([length.buffer, list, ...files], { type: MEDIA_TYPE });
}

/** Send a body and report its bytes. Resolves to the server's JSON; rejects with its sentence. */
function send(url, body, signal, onBytes) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();  // fetch tells nothing of what was sent
    const fail = (text) => reject(new Error(text));
    request.open('POST', url);
    request.upload.onprogress = (event) => onBytes(event.loaded, event.total);
    request.onload = () => {
      let said = {};
      try { said = JSON.parse(request.responseText); } catch { /* a proxy answered */ }
      if (request.status === 202) resolve(said);
      else fail(said.error ?? `The server answered ${request.status}.`);
    };
    request.onerror = () => fail('The connection broke; send it again.');
    request.onabort = () => fail('Cancelled.');
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(body);
  });
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/**
 * @param {import('../lib/app.mjs').App} app @param {File[]} files @param {AbortSignal} signal
 * @param {(state: {phase: string, done: number, total: number}) => void} onProgress
 * @returns {Promise<{run: string, is_known: boolean, problems: string[], guesses: string[]}>}
 */
export async function transfer(app, files, signal, onProgress) {
  const sent = await send(`${app.base}/api/uploads`, uploadBody(files), signal,
    (done, total) => onProgress({ phase: 'Sending', done, total }));
  const url = `${app.base}/api/uploads/${sent.import}`;
  signal.addEventListener('abort', () => fetch(url, { method: 'DELETE' }), { once: true });
  for (;;) {
    const job = await app.json(url);
    if (job.state === 'done') return job;
    if (job.state === 'failed') throw new Error(job.error);
    onProgress({ phase: 'Reading', done: job.done_bytes, total: job.num_bytes });
    await pause(LOOK_EVERY_MS);
  }
}
