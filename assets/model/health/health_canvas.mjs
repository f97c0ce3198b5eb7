/** A picture of one statistic by row and step: the same keys, clicks and pointing in all of them. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { drawnRowOf, rowsOf } from './health_data.mjs';

export class HealthCanvas extends CanvasView {
  /** @param {{chosen: (key: string, step: number) => void, pointed: (step: ?number) => void}} handlers */
  constructor(element, options, handlers) {
    super(element, options);
    Object.assign(this, { handlers, data: null, cursor: null, row: null });
  }

  moved(hit, key) {
    const { data } = this;
    if (!data?.width) return null;
    if (!hit) return { row: Math.max(0, drawnRowOf(data, this.row)), column: data.width - 1 };
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return {
      row: Math.min(data.height - 1, Math.max(0, hit.row + down)), column: Math.min(data.width - 1, Math.max(0, hit.column + right)),
    };
  }

  choose({ row, column }) {
    this.handlers.chosen(rowsOf(this.data, row)[0].key, this.data.firstStep[column]);
  }

  pointed(hit) {
    this.handlers.pointed(hit ? this.data.firstStep[hit.column] : null);
  }
}
