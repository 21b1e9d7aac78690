/** Makes an element with text and children; text never becomes markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Partial<Record<string, string>> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties))
    if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found as T;
}

/** Sets text only where it changes: screen readers and selections are left in peace. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** A color of the style sheet, as it is in the scheme of now. */
export const color = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const two = (value: number): string => String(value).padStart(2, '0');

export function clock(ms: number, seconds = true): string {
  const date = new Date(ms);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return seconds ? `${text}:${two(date.getSeconds())}` : text;
}
