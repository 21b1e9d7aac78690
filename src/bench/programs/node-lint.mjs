// ESLint in this process, as an editor's server runs it: the parsed file, its tokens and scopes stay in memory.

export class Lint {
  /** Source code as the linter left it (syntax tree, tokens, scopes, comments), by virtual path. */
  sources = new Map();

  constructor(need) {
    const { Linter } = need('eslint');
    const { parser, plugin } = need('typescript-eslint');
    const all = { ...need('@eslint/js').configs.recommended.rules };
    for (const name of ['no-undef', 'no-unused-vars']) all[name] = 'off'; // the compiler's
    for (const rule of RULES) all[`@typescript-eslint/${rule}`] = 'error';
    for (const rule of STYLE) all[rule] = 'error';
    this.linter = new Linter({ cwd: '/work' });
    this.config = [
      {
        files: ['**/*.ts', '**/*.js'],
        languageOptions: { parser },
        linterOptions: { reportUnusedDisableDirectives: 'off' },
        plugins: { '@typescript-eslint': plugin, ban: { rules: {} } },
        rules: all,
      },
    ];
  }

  /** Messages as `line:column rule`, in the order of the file. */
  check(path, text) {
    const messages = this.linter.verify(text, this.config, { filename: path });
    this.sources.set(path, this.linter.getSourceCode());
    return messages.map(({ line, column, ruleId, message }) => `${line}:${column} ${ruleId ?? message}`);
  }
}

/** Of typescript-eslint, those that need no types. */
const RULES = [
  'adjacent-overload-signatures',
  'array-type',
  'ban-ts-comment',
  'consistent-indexed-object-style',
  'consistent-type-assertions',
  'consistent-type-definitions',
  'consistent-type-imports',
  'explicit-function-return-type',
  'explicit-member-accessibility',
  'member-ordering',
  'no-dupe-class-members',
  'no-empty-function',
  'no-empty-object-type',
  'no-explicit-any',
  'no-inferrable-types',
  'no-namespace',
  'no-non-null-assertion',
  'no-shadow',
  'no-this-alias',
  'no-unused-expressions',
  'no-unused-vars',
  'no-use-before-define',
  'prefer-for-of',
  'prefer-function-type',
  'unified-signatures',
];

const STYLE = [
  'complexity',
  'eqeqeq',
  'max-depth',
  'no-var',
  'prefer-const',
  'prefer-template',
  'no-else-return',
];
