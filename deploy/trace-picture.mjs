// Draws one window out of a file of spans (`otel.file`) as an SVG picture:
//   node deploy/trace-picture.mjs SPANS.jsonl PICTURE.svg [TRACE_ID]
// Without an id the window that shows most is taken. Needs the build in dist/.
import { readFileSync, writeFileSync } from 'node:fs';
import { mostTelling, parseTraces } from '../dist/bench/report/trace.js';
import { waterfall } from '../dist/bench/report/waterfall.js';
import { explain } from '../dist/errors.js';

const [spans, picture, id] = process.argv.slice(2);
if (picture === undefined) {
  console.error('usage: node deploy/trace-picture.mjs SPANS.jsonl PICTURE.svg [TRACE_ID]');
  process.exit(2);
}
try {
  const traces = parseTraces(readFileSync(spans, 'utf8'));
  const trace = id === undefined ? mostTelling(traces) : traces.find((each) => each.id === id);
  if (trace === undefined)
    throw new Error(`${spans} has no window${id === undefined ? '' : ` of trace ${id}`}`);
  writeFileSync(picture, waterfall(trace));
} catch (error) {
  console.error(explain(error));
  process.exit(1);
}
