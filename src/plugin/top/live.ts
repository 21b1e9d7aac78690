import { Box, render, Text, useInput, useStdout, type Key } from 'ink';
import { createElement as h, useEffect, useState, type ReactElement } from 'react';
import { watch, type WatchOptions } from '../watch/watch.js';
import { FIRST_VIEW, press, type KeyName, type KeyPress, type View } from './keys.js';
import { screen, scrollOf, type Line, type Scene, type Size, type Tone } from './screen.js';

/** A screen of its own, as pagers and editors have: what was on the terminal comes back afterwards. */
const ENTER = '\x1b[?1049h\x1b[2J\x1b[H';
const LEAVE = '\x1b[?1049l';
const SIGNALS = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

type Style = { bold?: boolean; dimColor?: boolean; inverse?: boolean; color?: string };

const STYLES: Record<Tone, Style> = {
  title: { bold: true },
  dim: { dimColor: true },
  good: { color: 'green' },
  warn: { color: 'yellow' },
  bad: { color: 'red', bold: true },
  head: { inverse: true },
};

export interface Terminal {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  /** False: bold and inverse only. */
  color: boolean;
}

const NAMES: readonly [flag: keyof Key, name: KeyName][] = [
  ['upArrow', 'up'],
  ['downArrow', 'down'],
  ['leftArrow', 'left'],
  ['rightArrow', 'right'],
  ['pageUp', 'pageup'],
  ['pageDown', 'pagedown'],
  ['home', 'home'],
  ['end', 'end'],
  ['return', 'return'],
  ['escape', 'escape'],
  ['backspace', 'backspace'],
  // Most terminals send DEL for the key that is labelled Backspace.
  ['delete', 'backspace'],
];

function keyOf(input: string, key: Key): KeyPress {
  if (key.ctrl && input === 'c') return { name: 'interrupt' };
  const name = NAMES.find(([flag]) => key[flag] === true)?.[1];
  return name === undefined ? { text: key.ctrl || key.meta ? '' : input } : { name };
}

function useSize(): Size {
  const { stdout } = useStdout();
  // Ink clears the terminal for each frame that is as high as the terminal, which flickers.
  const now = (): Size => ({ columns: stdout.columns || 80, rows: Math.max(2, (stdout.rows || 24) - 1) });
  const [size, setSize] = useState(now);
  useEffect(() => {
    const resized = (): void => setSize(now());
    stdout.on('resize', resized);
    return () => void stdout.off('resize', resized);
  }, [stdout]);
  return size;
}

/** What the service shows; stays as it is while the view is paused. */
function useScene(options: Omit<WatchOptions, 'signal'>, paused: boolean): Scene {
  const [latest, setLatest] = useState<Scene>({ sample: null, problem: null });
  const [shown, setShown] = useState(latest);
  useEffect(() => {
    const end = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const { sample, problem } of watch({ ...options, signal: end.signal })) {
        setLatest((before) => ({ sample: sample ?? before.sample, problem }));
      }
    };
    void follow();
    return () => end.abort();
  }, []);
  useEffect(() => {
    if (!paused) setShown(latest);
  }, [latest, paused]);
  return shown;
}

const lineOf = ({ text, tone }: Line, index: number, color: boolean): ReactElement => {
  const { color: hue, ...style } = tone === undefined ? ({} as Style) : STYLES[tone];
  return h(
    Text,
    { key: index, wrap: 'truncate', ...style, ...(color && hue !== undefined && { color: hue }) },
    text || ' ',
  );
};

interface Props {
  options: Omit<WatchOptions, 'signal'>;
  color: boolean;
  quit: () => void;
}

function Top({ options, color, quit }: Props): ReactElement {
  const [view, setView] = useState<View>(FIRST_VIEW);
  const size = useSize();
  const scene = useScene(options, view.paused);
  useInput((input, key) => {
    setView((before) => {
      const next = press(before, keyOf(input, key), scrollOf(scene, before, size));
      if (next === null) quit();
      return next ?? before;
    });
  });
  const lines = screen(scene, view, size).map((line, index) => lineOf(line, index, color));
  return h(Box, { flexDirection: 'column' }, ...lines);
}

/** Shows the service until the user quits, or a signal ends it. */
export async function showTop(
  options: Omit<WatchOptions, 'signal'>,
  { stdin, stdout, color }: Terminal,
): Promise<void> {
  stdout.write(ENTER);
  let quit = (): void => {};
  const app = render(h(Top, { options, color, quit: () => quit() }), {
    ...{ stdin, stdout, exitOnCtrlC: false, patchConsole: false },
  });
  quit = () => app.unmount();
  for (const signal of SIGNALS) process.on(signal, quit);
  try {
    await app.waitUntilExit();
  } finally {
    for (const signal of SIGNALS) process.off(signal, quit);
    stdout.write(LEAVE);
  }
}
