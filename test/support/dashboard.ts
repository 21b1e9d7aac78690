import { Dashboard } from '../../src/plugin/dashboard/dashboard.js';
import { History } from '../../src/plugin/dashboard/history.js';
import { sampleOf, type Look } from '../../src/plugin/watch/sample.js';
import { PlayedController } from './played-status.js';

const STEP_MS = 2_000;

/** A dashboard over `count` played sandboxes that have been watched for `pastMs`. */
export async function playedDashboard(count: number, pastMs = 5 * 60_000) {
  const controller = new PlayedController(count);
  const history = new History();
  const until = Date.now();
  controller.startedAt = until - pastMs;
  let before: Look | undefined;
  for (let at = until - pastMs; at < until; at += STEP_MS) {
    controller.clock = () => at;
    const look = { status: await controller.status(), at };
    history.add(sampleOf(look, before));
    before = look;
  }
  controller.clock = Date.now;
  const dashboard = await Dashboard.start({
    ...{ host: '127.0.0.1', port: 0, look: () => controller.status(), intervalMs: 300, history },
  });
  return { controller, history, dashboard };
}
