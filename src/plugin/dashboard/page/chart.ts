import type uPlot from 'uplot';
import { byId, clock, color, element, setText } from './dom.js';

declare global {
  interface Window {
    uPlot: typeof uPlot;
  }
}

export interface Line {
  name: string;
  /** A color of the style sheet. */
  color: string;
  /** Filled down to the line below. */
  area?: boolean;
  /** The value a reader is told, of the point at this index. */
  value(index: number): string;
}

export interface ChartOptions {
  id: string;
  height: number;
  lines: readonly Line[];
  /** Marks of the value axis. */
  axis: (value: number) => string;
  /** Steps of the axis; default: decimal ones. */
  steps?: number[];
  /** Fixed upper end of the value axis. */
  most?: number;
}

const TIME_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];
const FONT = '12px system-ui, sans-serif';

/** A chart over time with a legend of its own; arrow keys move its cursor. */
export class Chart {
  private plot: uPlot | null = null;
  private data: uPlot.AlignedData = [[]];
  private range: [number, number] = [0, 1];
  private readonly box: HTMLElement;
  private readonly values: HTMLElement[] = [];
  private readonly moment: HTMLElement;

  constructor(private readonly options: ChartOptions) {
    this.box = byId(options.id);
    const legend = byId(`${options.id}-legend`);
    for (const line of options.lines) {
      const swatch = element('i', { class: line.area ? '' : 'line' });
      swatch.style[line.area ? 'background' : 'borderColor'] = `var(--${line.color})`;
      const value = element('b');
      this.values.push(value);
      legend.append(element('li', {}, swatch, `${line.name} `, value));
    }
    this.moment = element('li', { class: 'at' });
    legend.append(this.moment);
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.box.addEventListener('blur', () => this.cursor(null));
    new ResizeObserver(() => this.resize()).observe(this.box);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  /** `data`: times in seconds, then the values of each line; `range` in seconds. */
  set(data: uPlot.AlignedData, range: [number, number], summary: string): void {
    this.data = data;
    this.range = range;
    this.box.setAttribute('aria-label', summary);
    if (this.plot === null) this.draw();
    else {
      const at = this.plot.cursor.idx ?? null;
      this.plot.setData(data, false);
      this.plot.setScale('x', { min: range[0], max: range[1] });
      this.legend(at);
    }
  }

  private draw(): void {
    this.plot?.destroy();
    const width = Math.max(200, this.box.clientWidth);
    this.plot = new window.uPlot(
      { ...this.settings(), width, height: this.options.height },
      this.data,
      this.box,
    );
    this.legend(null);
  }

  private resize(): void {
    const width = Math.max(200, this.box.clientWidth);
    if (this.plot !== null && this.plot.width !== width)
      this.plot.setSize({ width, height: this.options.height });
  }

  private settings(): Omit<uPlot.Options, 'width' | 'height'> {
    const { lines, axis, steps, most } = this.options;
    const look = { stroke: color('quiet'), font: FONT, grid: { stroke: color('grid'), width: 1 } };
    const ticks = { stroke: color('grid'), width: 1, size: 4 };
    return {
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { time: true, range: () => this.range },
        y: { range: (_plot, _min, max) => [0, most ?? Math.max(1, (max ?? 0) * 1.08)] },
      },
      axes: [
        {
          ...look,
          ticks,
          space: 70,
          size: 32,
          incrs: TIME_STEPS_S,
          values: (_plot, splits) => splits.map((at) => clock(at * 1000, splits[1] - splits[0] < 60)),
        },
        {
          ...look,
          ticks,
          size: 68,
          ...(steps && { incrs: steps }),
          values: (_plot, splits) => splits.map(axis),
        },
      ],
      series: [
        {},
        ...lines.map((line) => ({
          stroke: color(line.color),
          width: line.area ? 1 : 2,
          ...(line.area && { fill: color(line.color) }),
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [(plot) => this.legend(plot.cursor.idx ?? null)] },
    };
  }

  /** Values at a point; of the last one where no cursor stands. */
  private legend(index: number | null): void {
    const last = this.data[0].length - 1;
    const at = index === null || index > last ? last : index;
    this.options.lines.forEach((line, i) => setText(this.values[i], at < 0 ? '-' : line.value(at)));
    setText(this.moment, index === null || at < 0 ? 'now' : `at ${clock(this.data[0][at] * 1000)}`);
  }

  private key(event: KeyboardEvent): void {
    const last = this.data[0].length - 1;
    const at = this.plot?.cursor.idx ?? last;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.cursor(to === null ? null : Math.max(0, Math.min(last, to)));
  }

  private cursor(index: number | null): void {
    const legend = byId(`${this.options.id}-legend`);
    legend.setAttribute('aria-live', index === null ? 'off' : 'polite');
    const left = index === null ? -10 : (this.plot?.valToPos(this.data[0][index], 'x') ?? -10);
    this.plot?.setCursor({ left, top: index === null ? -10 : 10 });
  }
}
