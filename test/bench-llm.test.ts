import { afterEach, describe, expect, it } from 'vitest';
import { askModel, LlmServer } from '../src/bench/llm.js';
import { planTrajectories } from '../src/bench/workloads/demo.js';

const trajectories = planTrajectories({ sandboxes: 2, turns: 2, seed: 5, timeScale: 0.1 });
const [first] = trajectories;

describe('the model that the demo plays', () => {
  let llm: LlmServer | undefined;
  afterEach(() => llm?.close());

  it('waits, streams, and asks for the tools of the trajectory', async () => {
    llm = await LlmServer.listen(trajectories);
    const from = performance.now();
    let waitedMs = 0;
    const seen = async (): Promise<void> => {
      waitedMs = performance.now() - from;
    };
    const turn = { sandbox: first.sandbox, turn: 1 };
    const calls = await askModel(llm.url, turn, seen, new AbortController().signal);
    const { firstTokenMs, streamMs } = first.turns[1];
    const tookMs = performance.now() - from;
    expect(calls).toEqual(first.turns[1].calls);
    expect(waitedMs).toBeGreaterThanOrEqual(firstTokenMs - 2);
    expect(waitedMs).toBeLessThan(tookMs - streamMs / 2);
    expect(tookMs).toBeGreaterThanOrEqual(firstTokenMs + streamMs - 2);
    const [served] = llm.served;
    expect(served).toMatchObject(turn);
    expect(Math.abs(served.firstTokenAt - served.requestAt - firstTokenMs)).toBeLessThan(100);
    expect(Math.abs(served.endAt - served.firstTokenAt - streamMs)).toBeLessThan(100);
  });

  it('answers many agents at once without a word of warning', async () => {
    const warnings: string[] = [];
    const note = (warning: Error): void => void warnings.push(warning.name);
    process.on('warning', note);
    const many = planTrajectories({ sandboxes: 24, turns: 1, seed: 5, timeScale: 0.01 });
    const model = (llm = await LlmServer.listen(many));
    const nothing = (): Promise<void> => Promise.resolve();
    const never = new AbortController().signal;
    const turns = many.map(({ sandbox }) => ({ sandbox, turn: 0 }));
    await Promise.all(turns.map((turn) => askModel(model.url, turn, nothing, AbortSignal.any([never]))));
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  it('reports what went wrong when the first token was handled', async () => {
    llm = await LlmServer.listen(trajectories);
    const fail = (): Promise<void> => Promise.reject(new Error('refused'));
    const turn = { sandbox: first.sandbox, turn: 0 };
    await expect(askModel(llm.url, turn, fail, new AbortController().signal)).rejects.toThrow('refused');
  });

  it('can be stopped while an agent waits', async () => {
    llm = await LlmServer.listen(trajectories);
    const reason = new Error('stop');
    const controller = new AbortController();
    const turn = { sandbox: first.sandbox, turn: 0 };
    const asked = askModel(llm.url, turn, () => Promise.resolve(), controller.signal);
    setTimeout(() => controller.abort(reason), 20);
    await expect(asked).rejects.toBe(reason);
  });

  it('knows no turn outside the trajectories', async () => {
    llm = await LlmServer.listen(trajectories);
    const turn = { sandbox: first.sandbox, turn: 2 };
    const asked = askModel(llm.url, turn, () => Promise.resolve(), new AbortController().signal);
    await expect(asked).rejects.toThrow('404');
  });
});
