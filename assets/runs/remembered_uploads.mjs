/** Uploads that this browser began and that have not finished; they outlive a reload of the page. */

const MOST = 8;

export class RememberedUploads {
  /** @param {string} base the server's prefix @param {Storage} storage */
  constructor(base, storage) {
    this.key = `rankscope.uploads ${base}`;
    this.storage = storage;
  }

  /** Newest first. @returns {{id: string, fingerprint: string}[]} */
  all() {
    try {
      const stored = JSON.parse(this.storage.getItem(this.key) ?? '[]');
      return Array.isArray(stored) ? stored.filter((upload) => typeof upload?.id === 'string') : [];
    } catch {  // the browser forbids storage, or it holds something else
      return [];
    }
  }

  /** @param {string} fingerprint @returns {?string} the id of the upload of these files */
  find(fingerprint) {
    return this.all().find((upload) => upload.fingerprint === fingerprint)?.id ?? null;
  }

  add(id, fingerprint) {
    this.#write([{ id, fingerprint }, ...this.all()].slice(0, MOST));
  }

  forget(id) {
    this.#write(this.all().filter((upload) => upload.id !== id));
  }

  #write(uploads) {
    try { this.storage.setItem(this.key, JSON.stringify(uploads)); } catch { /* a reload forgets */ }
  }
}
