/** Sets a dcc.Store once the element is nearly in sight, so that expensive content loads only then. */

const NEAR = '200px';

/** @param {{store: string}} options */
export function mount(element, app, options) {
  element.style.minHeight = '1px';
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    app.publish(options.store, true);
  }, { rootMargin: NEAR });
  watch.observe(element);
  return { destroy: () => watch.disconnect() };
}
