import { describe, expect, it } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { COLUMNS, columnOf, windowCell, windowProgress } from '../src/plugin/top/columns.js';
import { FIRST_VIEW, press, type KeyPress, type View } from '../src/plugin/top/keys.js';
import { screen, scrollOf, snapshot, type Scene } from '../src/plugin/top/screen.js';
import { filterRows, fit, fitColumns, sortRows } from '../src/plugin/top/table.js';
import { bytes, duration, perSecond, shortBytes, times } from '../src/plugin/watch/format.js';
import { sampleOf, type Sample, type SandboxRow } from '../src/plugin/watch/sample.js';
import { PlayedController } from './support/played-status.js';

const MIB = 2 ** 20;

async function sample(
  count: number,
  change: (controller: PlayedController) => void = () => {},
): Promise<Sample> {
  const controller = new PlayedController(count);
  change(controller);
  return sampleOf({ status: await controller.status(), at: 1000 });
}

const row = (given: Partial<SandboxRow>): SandboxRow => ({
  ...{ id: 'a', template: null, tenant: 't', phase: 'idle', ownedBytes: 0, outBytes: 0, storedBytes: 0 },
  ...{
    ratio: null,
    window: null,
    lastWindow: null,
    windows: 0,
    skipped: 0,
    accuracy: null,
    faults: 0,
    faultsPerS: null,
  },
  ...given,
});

describe('a sample', () => {
  it('sums up what is taken with and without AgentZip', async () => {
    const controller = new PlayedController(3);
    const status = await controller.status();
    const { totals } = sampleOf({ status, at: 1000 });
    const owned = status.sandboxes.reduce((sum, { ownedBytes }) => sum + ownedBytes, 0);
    const out = status.sandboxes.reduce((sum, { swappedBytes }) => sum + swappedBytes, 0);
    expect(totals.withBytes).toBe(owned + status.pager.poolBytes);
    expect(totals.withoutBytes).toBe(owned + out);
    expect(totals.reduction).toBeCloseTo((owned + out) / (owned + status.pager.poolBytes));
    expect(totals.reductionCharged).toBeCloseTo(
      (owned + out) / (owned + status.pager.poolBytes + status.pager.baseBytes),
    );
  });

  it('counts faults a second from the look before, and nothing when the counter began anew', async () => {
    const status = await new PlayedController(2).status();
    const [first, second] = status.sandboxes;
    const at = (faults: number[]) => ({
      ...status,
      sandboxes: [first, second].map((box, i) => ({ ...box, demandFaults: faults[i] })),
    });
    const later = sampleOf({ status: at([30, 5]), at: 3000 }, { status: at([10, 50]), at: 1000 });
    expect(later.sandboxes.map(({ faultsPerS }) => faultsPerS)).toEqual([10, null]);
    expect(later.totals.faultsPerS).toBe(10);
    expect(sampleOf({ status, at: 1 }).totals.faultsPerS).toBeNull();
  });
});

describe('figures', () => {
  it.each([
    [0, '0 B', '0'],
    [512 * 1024, '512 KiB', '512K'],
    [1023 * 1024, '1.00 MiB', '1.00M'],
    [99.96 * MIB, '100 MiB', '100M'],
    [1.5 * 1024 * MIB, '1.50 GiB', '1.50G'],
  ])('%d bytes are %s', (value, long, short) => {
    expect([bytes(value), shortBytes(value)]).toEqual([long, short]);
  });

  it('stay narrow', () => {
    for (let value = 1; value < 2 ** 49; value = Math.ceil(value * 1.37)) {
      expect(shortBytes(value).length).toBeLessThanOrEqual(5);
      if (value < 1e11) expect(duration(value).length).toBeLessThanOrEqual(5);
    }
    expect([times(null), times(4.25), times(250.4), perSecond(0), perSecond(0.44), perSecond(120)]).toEqual([
      '-',
      '4.3x',
      '250x',
      '0',
      '0.4',
      '120',
    ]);
  });
});

describe('the progress of a window', () => {
  const at = (elapsedMs: number, predictedMs: number | null) =>
    row({ window: { openedAt: 0, elapsedMs, predictedMs } });

  it('is a bar of what was expected', () => {
    expect(windowCell(at(5000, 10_000))).toBe('===... 5.0s/10s');
    expect(windowCell(at(0, 10_000))).toBe('...... 0.0s/10s');
  });

  it('shows that a window lasts longer than expected', () => {
    expect(windowCell(at(15_000, 10_000))).toBe('++++++ 15s/10s');
    expect(windowProgress(at(15_000, 10_000))).toBe(1.5);
  });

  it('is the time alone where nothing was expected, and nothing without a window', () => {
    expect(windowCell(at(1500, null))).toBe('1.5s');
    expect(windowCell(row({}))).toBe('-');
  });
});

describe('the table', () => {
  it('sorts by every column, unknown values last either way', () => {
    const rows = [row({ id: 'box-10', ratio: 3 }), row({ id: 'box-9' }), row({ id: 'box-1', ratio: 7 })];
    const ids = (sort: string, descending: boolean) =>
      sortRows(rows, { sort, descending }).map(({ id }) => id);
    expect(ids('ratio', true)).toEqual(['box-1', 'box-10', 'box-9']);
    expect(ids('ratio', false)).toEqual(['box-10', 'box-1', 'box-9']);
    expect(ids('id', false)).toEqual(['box-1', 'box-9', 'box-10']);
    for (const { key } of COLUMNS) expect(sortRows(rows, { sort: key, descending: true })).toHaveLength(3);
  });

  it('filters by every word, in id, template, tenant and phase', () => {
    const rows = [row({ id: 'box-1', phase: 'llm_wait' }), row({ id: 'box-2', template: 'python' })];
    expect(filterRows(rows, 'WAIT')).toEqual([rows[0]]);
    expect(filterRows(rows, 'box pyth')).toEqual([rows[1]]);
    expect(filterRows(rows, '  ')).toEqual(rows);
    expect(filterRows(rows, 'nothing')).toEqual([]);
  });

  it('has room for its titles with the mark of the order, and drops columns by priority', () => {
    for (const { title, width } of COLUMNS) expect(title.length + 1, title).toBeLessThanOrEqual(width);
    const keys = (width: number) => fitColumns(width, 8).map(({ key }) => key);
    expect(keys(200)).toEqual(COLUMNS.map(({ key }) => key));
    expect(keys(80)).toEqual(['id', 'phase', 'owned', 'stored', 'ratio', 'window', 'accuracy', 'faults']);
    expect(keys(40)).toEqual(['id', 'phase', 'owned', 'ratio']);
    expect(keys(5)).toEqual(['id']);
  });

  it('cuts what does not fit, and says so; nothing moves the cursor', () => {
    expect(fit('sandbox-1', 6)).toBe('sandb~');
    expect(fit('a\x1b[2J\n界', 12)).toBe('a?[2J??     ');
    expect(fit('7', 3, false)).toBe('  7');
  });
});

describe('keys', () => {
  const scroll = { most: 20, page: 10 };
  const after = (keys: KeyPress[], from: View = FIRST_VIEW) =>
    keys.reduce<View | null>((view, key) => (view === null ? null : press(view, key, scroll)), from);

  it('choose the column and the order', () => {
    expect(after([{ text: 's' }])).toMatchObject({ sort: 'out', descending: true });
    expect(after([{ name: 'left' }])).toMatchObject({ sort: 'phase', descending: false });
    expect(after([{ text: 'r' }])).toMatchObject({ sort: 'owned', descending: false });
    expect(after(COLUMNS.map(() => ({ name: 'right' as const })))?.sort).toBe('owned');
  });

  it('scroll no further than there are rows', () => {
    expect(after([{ name: 'pagedown' }, { name: 'down' }])?.top).toBe(11);
    expect(after([{ name: 'end' }])?.top).toBe(20);
    expect(after([{ name: 'end' }, { text: 'kk' }])?.top).toBe(18);
    expect(after([{ name: 'up' }])?.top).toBe(0);
  });

  it('type a filter, in which q is a letter', () => {
    const typing = [{ text: '/' }, { text: 'sq' }, { text: 'x' }, { name: 'backspace' as const }];
    expect(after(typing)).toMatchObject({ filter: 'sq', typing: true });
    expect(after([...typing, { name: 'return' }])).toMatchObject({ filter: 'sq', typing: false });
    expect(after([...typing, { name: 'escape' }])).toMatchObject({ filter: '', typing: false });
    expect(after([...typing, { name: 'return' }, { name: 'escape' }])?.filter).toBe('');
  });

  it('pause, help and quit', () => {
    expect(after([{ text: 'p' }])?.paused).toBe(true);
    expect(after([{ text: ' ' }, { text: ' ' }])?.paused).toBe(false);
    expect(after([{ text: '?' }])?.help).toBe(true);
    expect(after([{ text: '?' }, { text: 'q' }])).toMatchObject({ help: false });
    expect(after([{ text: 'q' }])).toBeNull();
    expect(after([{ text: '/' }, { name: 'interrupt' }])).toBeNull();
  });
});

describe('the screen', () => {
  const sizes = [
    [200, 60],
    [80, 24],
    [80, 15],
    [40, 10],
    [20, 5],
    [7, 2],
  ].map(([columns, rows]) => ({ columns, rows }));

  it.each(sizes)('never exceeds $columns x $rows', async (size) => {
    const alerts = [{ code: 'AZ_STORE_FULL', message: 'the store is full'.repeat(20), remedy: 'raise it' }];
    const full = await sample(300, (controller) => (controller.alerts = alerts));
    const scenes: Scene[] = [
      { sample: full, problem: null },
      { sample: full, problem: new AgentZipError('AZ_NOT_RUNNING', { socket: '/run/x' }) },
      { sample: await sample(0), problem: null },
      { sample: null, problem: new Error('x'.repeat(300)) },
      { sample: null, problem: null },
    ];
    const views: Partial<View>[] = [
      {},
      { help: true },
      { typing: true, filter: 'b'.repeat(90) },
      { top: 1e9 },
    ];
    for (const scene of scenes) {
      for (const view of views) {
        const lines = screen(scene, { ...FIRST_VIEW, ...view }, size);
        expect(lines.length).toBeLessThanOrEqual(size.rows);
        for (const { text } of lines) expect(text.length).toBeLessThanOrEqual(size.columns);
      }
    }
  });

  it('shows 300 sandboxes page by page', async () => {
    const scene = { sample: await sample(300), problem: null };
    const size = { columns: 80, rows: 24 };
    const { page, most } = scrollOf(scene, FIRST_VIEW, size);
    expect(page + most).toBe(300);
    const view = { ...FIRST_VIEW, sort: 'id', descending: false };
    const seen = new Set<string>();
    for (let top = 0; top <= 300; top += page) {
      for (const { text } of screen(scene, { ...view, top }, size)) {
        const id = /^box-\d+/.exec(text)?.[0];
        if (id !== undefined) seen.add(id);
      }
    }
    expect(seen.size).toBe(300);
  });

  it('keeps sandboxes in sight on 40 x 10', async () => {
    const lines = screen({ sample: await sample(50), problem: null }, FIRST_VIEW, { columns: 40, rows: 9 });
    expect(lines.filter(({ text }) => text.startsWith('box-')).length).toBeGreaterThanOrEqual(4);
    expect(lines[0].text).toContain('50 sandboxes');
  });

  it('marks the column it is sorted by', async () => {
    const scene = { sample: await sample(2), problem: null };
    const titles = screen(scene, { ...FIRST_VIEW, sort: 'ratio' }, sizes[1]).find(
      ({ tone }) => tone === 'head',
    );
    expect(titles?.text).toContain(`${columnOf('ratio').title}v`);
  });

  it('is a snapshot with every sandbox and no keys where there is no terminal', async () => {
    const text = snapshot(await sample(60), 80);
    expect(text.match(/^box-/gm)).toHaveLength(60);
    expect(text).not.toContain('quit');
    expect(text).not.toMatch(/\x1b/);
  });
});
