import { CHARACTER } from './chart.js';

/** A point of a plot and its label; pixels. */
export interface Point {
  x: number;
  y: number;
  label: string;
}

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Placed extends Point {
  /** Where the label's text starts, its middle's height, and whether it is so far off that a line must lead to it. */
  textX: number;
  textY: number;
  led: boolean;
}

const HEIGHT = 13;
const RADIUS = 6;
/** Distances from the point that are tried, pixels; from LED on a line leads to the label. */
const DISTANCES = [10, 14, 18, 26, 36, 48, 62, 78];
const LED = 20;
/** Parts of a leader whose ends are looked at. */
const STEPS = 12;
const DIRECTIONS = Array.from({ length: 16 }, (_, i) => (i * Math.PI) / 8);
/** What speaks against a place, a pixel or a square pixel of it; a place beside the point is best to the right. */
const COST = { covered: 10, outside: 1000, crossed: 250, led: 25, distance: 0.6, notRight: 2, slanted: 1 };

/**
 * Puts a label beside each point, in the frame, so that it covers no point, no other label and none of `obstacles`, as
 * far as there is room; the first points choose first.
 */
export function placeLabels(points: readonly Point[], frame: Box, obstacles: readonly Box[]): Placed[] {
  const marks = points.map(({ x, y }) => around(x, y));
  const taken: Box[] = [...marks, ...obstacles];
  return points.map((point, self) => {
    const others = taken.filter((_, i) => i !== self); // a leader starts in its own mark
    const places = DISTANCES.flatMap((distance) =>
      DIRECTIONS.map((direction) => {
        const box = labelBox(point, distance, direction);
        const led = distance > LED;
        const cost =
          COST.covered * taken.reduce((sum, other) => sum + overlap(box, other), 0) +
          COST.outside * outside(box, frame) +
          (led ? COST.led + COST.crossed * crossed(point, box, others) : 0) +
          COST.distance * distance +
          COST.notRight * (1 - Math.cos(direction)) +
          COST.slanted * Math.abs(Math.sin(2 * direction));
        return { box, led, cost };
      }),
    );
    const { box, led } = places.reduce((a, b) => (b.cost < a.cost ? b : a));
    taken.push(box);
    return { ...point, textX: box.left, textY: (box.top + box.bottom) / 2, led };
  });
}

/** The point of a label that a line from (x, y) should end at. */
export function leaderEnd({ x, textX, textY, label }: Placed): [x: number, y: number] {
  return [Math.min(Math.max(x, textX - 2), textX + label.length * CHARACTER + 2), textY];
}

const overlap = (a: Box, b: Box): number =>
  Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

const outside = (box: Box, frame: Box): number =>
  Math.max(0, frame.left - box.left) +
  Math.max(0, box.right - frame.right) +
  Math.max(0, frame.top - box.top) +
  Math.max(0, box.bottom - frame.bottom);

/** How many boxes a line from the point to the label runs through. */
function crossed({ x, y, label }: Point, box: Box, others: readonly Box[]): number {
  const placed = { x, y, label, textX: box.left, textY: (box.top + box.bottom) / 2, led: true };
  const [endX, endY] = leaderEnd(placed);
  const runsThrough = (other: Box): boolean => {
    for (let step = 1; step < STEPS; step++) {
      const [atX, atY] = [x + (step / STEPS) * (endX - x), y + (step / STEPS) * (endY - y)];
      if (atX > other.left && atX < other.right && atY > other.top && atY < other.bottom) return true;
    }
    return false;
  };
  return others.filter(runsThrough).length;
}

const around = (x: number, y: number): Box => ({
  ...{ left: x - RADIUS, right: x + RADIUS, top: y - RADIUS, bottom: y + RADIUS },
});

function labelBox({ x, y, label }: Point, distance: number, direction: number): Box {
  const width = label.length * CHARACTER;
  const [dx, dy] = [Math.cos(direction), Math.sin(direction)];
  const left = x + dx * distance - (width * (1 - dx)) / 2;
  const middle = y + dy * (distance + HEIGHT / 3);
  return { left, right: left + width, top: middle - HEIGHT / 2, bottom: middle + HEIGHT / 2 };
}
