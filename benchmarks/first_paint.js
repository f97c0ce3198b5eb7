// Runs in the page before anything else: notes when each view's data came and when it was drawn.
(() => {
  const PATHS = PATHS_OF_VIEWS;  // view -> end of the path of its data
  const seen = (window.firstPaint = { data: {}, drawn: {} });
  let shared;
  const viewOf = (url) => {
    const path = new URL(url, location.href).pathname;
    return Object.keys(PATHS).find((view) => path.endsWith(PATHS[view]));
  };
  const watched = (ask) => async (url, signal) => {
    const answer = await ask(url, signal);
    const view = viewOf(url);
    if (view) seen.data[view] ??= performance.now();
    return answer;
  };
  Object.defineProperty(window, 'rankscope', {
    get: () => shared,
    set: (app) => {
      shared = app;
      app.arrays = watched(app.arrays.bind(app));
      app.json = watched(app.json.bind(app));
    },
  });
  const onDraw = (canvas) => {
    const view = canvas.closest?.('[data-view]')?.dataset.view;
    if (!(view in seen.data) || view in seen.drawn) return;
    seen.drawn[view] = NaN;
    // the frame after the next begins when this one has been put on the screen
    requestAnimationFrame(() => requestAnimationFrame(() => {
      seen.drawn[view] = performance.now();
    }));
  };
  const watchDraws = (type, names) => {
    for (const name of names) {
      const draw = type.prototype[name];
      type.prototype[name] = function drawAndTell(...given) {
        onDraw(this.canvas);
        return draw.apply(this, given);
      };
    }
  };
  watchDraws(CanvasRenderingContext2D, ['fillRect', 'fill', 'stroke', 'drawImage', 'putImageData']);
  watchDraws(WebGL2RenderingContext,
    ['drawArrays', 'drawElements', 'drawArraysInstanced', 'drawElementsInstanced']);
})();
