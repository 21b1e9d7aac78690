import { globExpression } from './glob.js';

/** What selectors look at. */
export interface Selectable {
  name: string;
  image: string;
  labels: Readonly<Record<string, string>>;
}

type Test = (of: Selectable) => boolean;

function testOf(selector: string): Test {
  const [, kind, rest] = /^(name|image|label):(.+)$/s.exec(selector) ?? [];
  if (kind === 'label') {
    const [, key, value] = /^([^=]+)(?:=(.*))?$/s.exec(rest) ?? [];
    const expression = value === undefined ? null : globExpression(value);
    return ({ labels }) =>
      Object.hasOwn(labels, key) && (expression === null || expression.test(labels[key]));
  }
  const expression = globExpression(rest ?? selector);
  return (of) => expression.test(kind === 'image' ? of.image : of.name);
}

/** Chooses containers: `name:GLOB`, `image:GLOB`, `label:KEY` or `label:KEY=GLOB`. Without any that include, all are included. */
export class Selectors {
  private readonly include: Test[];
  private readonly exclude: Test[];

  constructor(include: readonly string[], exclude: readonly string[]) {
    this.include = include.map(testOf);
    this.exclude = exclude.map(testOf);
  }

  choose(of: Selectable): boolean {
    if (this.exclude.some((test) => test(of))) return false;
    return this.include.length === 0 || this.include.some((test) => test(of));
  }
}
