/** The Share button: asks the server for the file of what is seen and saves it. */
import { element } from '../lib/dom.mjs';
import { toast } from '../lib/dialogs.mjs';
import { parseUrl, formatUrl } from '../lib/view_state.mjs';

/** Route of the file for a view. @param {import('../lib/view_state.mjs').View} view */
export function shareUrl(view, base) {
  const [, search = ''] = formatUrl({ ...view, q: null, sql: null, args: {} }, '').split('?');
  const query = [`page=${view.page}`, search].filter(Boolean).join('&');
  return `${base}/api/run/${encodeURIComponent(view.run)}/share?${query}`;
}

/** Name of the saved file, as the server gives it. */
export function fileName(disposition) {
  return /filename="([^"]+)"/.exec(disposition ?? '')?.[1] ?? 'rankscope.html';
}

export function mount(place, app) {
  const button = element('button', {
    type: 'button', text: 'Share', title: 'One file of this view that opens anywhere, offline' });
  place.replaceChildren(button);
  let asking = null;
  button.addEventListener('click', async () => {
    if (asking) return;
    asking = new AbortController();
    button.disabled = true;
    button.textContent = 'Preparing';
    try {
      const link = new URL(app.frame ? app.frame.link() : app.link());
      const view = parseUrl(link.pathname, link.search, app.base, app.pages);
      const answer = await fetch(shareUrl(view, app.base), { signal: asking.signal, credentials: 'same-origin' });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const url = URL.createObjectURL(await answer.blob());
      const save = element('a', { href: url, download: fileName(answer.headers.get('content-disposition')) });
      save.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      toast('Saved: one file that opens offline.');
    } catch (error) {
      if (error.name !== 'AbortError') toast(`Nothing was saved: ${error.message}`);
    } finally {
      asking = null;
      button.disabled = false;
      button.textContent = 'Share';
    }
  });
  return { destroy() { asking?.abort(); } };
}
