/** Text that is HTML already. Everything else that goes into a page is escaped. */
export class Markup {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }
}

export type Part = Markup | string | number | boolean | null | undefined | readonly Part[];

const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Safe between tags and in a quoted attribute. */
export const escape = (text: string): string => text.replace(/[&<>"']/g, (char) => ESCAPES[char]);

function render(part: Part): string {
  if (part === null || part === undefined || typeof part === 'boolean') return '';
  if (part instanceof Markup) return part.text;
  return typeof part === 'object' ? part.map(render).join('') : escape(String(part));
}

/** A template literal of HTML: inserted strings are escaped, lists joined, nothing and truth values left out. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Markup {
  return new Markup(strings.reduce((text, string, i) => text + render(parts[i - 1]) + string));
}
