/**
 * Panels that stay as they are while their data is the same: a live page does not close what a reader has
 * opened, nor takes the focus or the selection away. Elements with data-key keep what is open, and the focus.
 */
export class Panels {
  #shown = new Map();

  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    place.replaceChildren();
  }

  /** @param {(?{key: string, data: any, build: () => HTMLElement})[]} panels in order; null is left out */
  show(panels) {
    const wanted = panels.filter(Boolean);
    const next = new Map(wanted.map((panel) => [panel.key, this.#panel(panel)]));
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    for (const [key, { element }] of this.#shown) {
      if (next.get(key)?.element !== element) element.remove();
    }
    wanted.forEach(({ key }, index) => {
      const { element } = next.get(key);
      if (this.place.children[index] !== element) this.place.insertBefore(element, this.place.children[index] ?? null);
    });
    this.#shown = next;
    if (focused && !this.place.contains(document.activeElement)) {
      this.place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  #panel({ key, data, build }) {
    const text = JSON.stringify(data);
    const before = this.#shown.get(key);
    if (before?.text === text) return before;
    const element = build();
    if (before) copyOpen(before.element, element);
    return { text, element };
  }
}

function copyOpen(from, to) {
  const before = new Map([...from.querySelectorAll('details[data-key]')].map((one) => [one.dataset.key, one.open]));
  for (const one of to.querySelectorAll('details[data-key]')) {
    one.open = before.get(one.dataset.key) ?? one.open;
  }
}
