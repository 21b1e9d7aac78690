/** A glob over one name: `*` stands for any characters, `?` for one; everything else for itself. */
export function globExpression(glob: string): RegExp {
  const escaped = glob.replace(/[\\^$.|+()[\]{}]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/\*+/g, '.*').replaceAll('?', '.')}$`, 'su');
}
