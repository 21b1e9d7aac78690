import { stringify } from 'yaml';
import { DEFAULT_POLICY } from './defaults.js';
import { allowedValues, schemaAt, type SchemaNode } from './schema.js';

const COLUMNS = 100;

const node = (...path: string[]): SchemaNode => schemaAt(path) ?? {};
const isSection = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const notesOf = ({ markdownDescription }: SchemaNode): string[] =>
  markdownDescription === undefined ? [] : ['', markdownDescription];

function row(path: readonly string[], value: unknown): string {
  const schema = node(...path);
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  const cells = [`\`${path.join('.')}\``, `\`${shown}\``, allowedValues(schema), schema.description ?? ''];
  return `| ${cells.join(' | ')} |`;
}

const table = (rows: readonly string[]): string[] => [
  '',
  '| Key | Default | Allowed | Meaning |',
  '| --- | --- | --- | --- |',
  ...rows,
];

/** Keys of the top level that are no sections. */
const plain = Object.entries(DEFAULT_POLICY).filter(([, value]) => !isSection(value));

/** Has it keys of its own? A map of any keys is a value. */
const isNested = (path: readonly string[], value: unknown): value is Record<string, unknown> =>
  isSection(value) && node(...path).properties !== undefined;

function section(path: readonly string[], values: Record<string, unknown>): string[] {
  const schema = node(...path);
  const entries = Object.entries(values).map(([key, value]) => ({ at: [...path, key], value }));
  const rows = entries.filter(({ at, value }) => !isNested(at, value)).map(({ at, value }) => row(at, value));
  const title = `${'#'.repeat(path.length + 1)} ${path.join('.')}`;
  const head = ['', title, '', schema.description ?? '', ...table(rows), ...notesOf(schema)];
  return [...head, ...entries.flatMap(({ at, value }) => (isNested(at, value) ? section(at, value) : []))];
}

/** What an override may match and set. */
function overrides(): string[] {
  const schema = node('overrides');
  const { match, set } = schema.items?.properties ?? {};
  const patterns = Object.entries(match.properties ?? {}).map(
    ([key, { description = '' }]) => `| \`match.${key}\` | ${description} |`,
  );
  const settings = Object.entries(set.properties ?? {}).map(([key, { properties, description }]) => {
    const keys = Object.keys(properties ?? {}).map((name) => `\`${name}\``);
    return `| \`set.${key}\` | ${keys.length > 0 ? keys.join(', ') : (description ?? 'as above')} |`;
  });
  return [
    ...['', '## overrides', '', schema.description ?? ''],
    ...['', '| Key | Meaning |', '| --- | --- |', ...patterns, ...settings],
    ...notesOf(schema),
  ];
}

/** The reference page, in Markdown; the texts are the schema's. */
export function policyReference(): string {
  const root = node();
  const top = plain.filter(([key]) => key !== 'overrides').map(([key, value]) => row([key], value));
  const sections = Object.entries(DEFAULT_POLICY).flatMap(([name, value]) =>
    isSection(value) ? section([name], value) : [],
  );
  return [
    '<!-- Made of src/policy/policy.schema.json by `npm run docs`: change it there. -->',
    ...['', '# Policy', ...notesOf(root), '', '## Top level'],
    ...table(top),
    ...plain.flatMap(([key]) => (key === 'overrides' ? [] : notesOf(node(key)))),
    ...sections,
    ...overrides(),
    '',
  ].join('\n');
}

/** Text as comments of lines that are not too long. */
function comment(text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = `${indent}#`;
  for (const word of text.split(' ')) {
    if (line.length + word.length + 1 > COLUMNS && line !== `${indent}#`) {
      lines.push(line);
      line = `${indent}#`;
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

function entry(path: readonly string[], value: unknown, indent: string): string[] {
  const schema = node(...path);
  const text = stringify({ [path[path.length - 1]]: value }, { lineWidth: 0, flowCollectionPadding: false });
  return [
    ...comment(schema.description ?? '', indent),
    ...comment(`Allowed: ${allowedValues(schema)}.`, indent),
    ...text
      .trimEnd()
      .split('\n')
      .map((line) => indent + line),
  ];
}

/** A key, or a section with all of its keys. */
function part(path: readonly string[], value: unknown): string[] {
  const indent = '  '.repeat(path.length - 1);
  if (!isNested(path, value)) return entry(path, value, indent);
  const inner = Object.entries(value).flatMap(([key, of]) => part([...path, key], of));
  const description = node(...path).description ?? '';
  return [...comment(description, indent), `${indent}${path[path.length - 1]}:`, ...inner];
}

const EXAMPLE_OVERRIDES = `#
# overrides:
#   - match: { tenant: 'acme*', template: python-3.11 }
#     set: { mode: observe }
#   - match: { sandbox: box-7 }
#     set: { prefetch: { maxMiB: 512 } }`.split('\n');

/** A policy file that says what the defaults say, with what each key means. */
export function policyExample(): string {
  const lines = [
    '# The policy of AgentZip: every key with its default. What is left out is as it stands here.',
    '# agentzip policy check FILE tests it; a running service reads it anew when it changes.',
  ];
  for (const [name, value] of Object.entries(DEFAULT_POLICY)) {
    lines.push('', ...part([name], value));
  }
  return [...lines, ...EXAMPLE_OVERRIDES, ''].join('\n');
}
