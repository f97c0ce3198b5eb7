/** The Share button: saves one file of the current view, made by the server. */
import { make } from '../lib/dom.mjs';
import { toast } from '../lib/page/dialogs.mjs';
import { formatUrl, parseUrl } from '../lib/view_state.mjs';

/** URL of the shared file of a view. @param {import('../lib/view_state.mjs').View} view */
export function shareUrl(view, base) {
  const [, search = ''] = formatUrl({ ...view, q: null, sql: null, args: {} }, '').split('?');
  const query = [`page=${view.page}`, search].filter(Boolean).join('&');
  return `${base}/api/run/${encodeURIComponent(view.run)}/share?${query}`;
}

/** Name of the saved file, from the server's Content-Disposition header. */
export function fileName(disposition) {
  return /filename="([^"]+)"/.exec(disposition ?? '')?.[1] ?? 'rankscope.html';
}

export function mount(element, app) {
  const button = make('button', {
    type: 'button', text: 'Share', title: 'Saves this view as one file that any browser opens offline' });
  element.replaceChildren(button);
  let request = null;
  button.addEventListener('click', async () => {
    if (request) return;
    request = new AbortController();
    button.disabled = true;
    button.textContent = 'Preparing';
    try {
      const link = new URL(app.pageControls ? app.pageControls.link() : app.link());
      const view = parseUrl(link.pathname, link.search, app.base, app.pages);
      const answer = await fetch(shareUrl(view, app.base), { signal: request.signal, credentials: 'same-origin' });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const url = URL.createObjectURL(await answer.blob());
      const save = make('a', { href: url, download: fileName(answer.headers.get('content-disposition')) });
      save.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      toast('Saved: one file that opens offline.');
    } catch (error) {
      if (error.name !== 'AbortError') toast(`Nothing was saved: ${error.message}`);
    } finally {
      request = null;
      button.disabled = false;
      button.textContent = 'Share';
    }
  });
  return { destroy() { request?.abort(); } };
}
