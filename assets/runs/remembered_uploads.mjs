/** Uploads this browser has begun and not seen the end of: they outlive a reload of the page. */

const MOST = 8;

export class Remembered {
  /** @param {string} base the server's prefix @param {Storage} storage */
  constructor(base, storage) {
    this.key = `rankscope.uploads ${base}`;
    this.storage = storage;
  }

  /** Newest first. @returns {{id: string, fingerprint: string}[]} */
  all() {
    try {
      const found = JSON.parse(this.storage.getItem(this.key) ?? '[]');
      return Array.isArray(found) ? found.filter((one) => typeof one?.id === 'string') : [];
    } catch {  // storage is forbidden, or holds something else
      return [];
    }
  }

  /** @param {string} fingerprint @returns {?string} the id of the upload of these files */
  find(fingerprint) {
    return this.all().find((one) => one.fingerprint === fingerprint)?.id ?? null;
  }

  add(id, fingerprint) {
    this.#write([{ id, fingerprint }, ...this.all()].slice(0, MOST));
  }

  forget(id) {
    this.#write(this.all().filter((one) => one.id !== id));
  }

  #write(uploads) {
    try { this.storage.setItem(this.key, JSON.stringify(uploads)); } catch { /* a reload forgets */ }
  }
}
