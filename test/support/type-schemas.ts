import { join } from 'node:path';
import ts from 'typescript';
import { packageRoot } from '../../src/paths.js';

type Schema = Record<string, unknown>;

/**
 * JSON Schemas of exported interfaces and all they name, made from their declarations: what is documented as an answer is
 * what the compiler knows as one. Only what answers are made of is known: anything else is an error.
 */
export class TypeSchemas {
  readonly schemas: Record<string, Schema> = {};
  private readonly checker: ts.TypeChecker;
  private readonly program: ts.Program;

  constructor(private readonly files: readonly string[]) {
    const paths = files.map((file) => join(packageRoot, file));
    const options = { strict: true, noEmit: true, skipLibCheck: true, types: ['node'] };
    const modules = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext };
    this.program = ts.createProgram(paths, { ...options, ...modules, target: ts.ScriptTarget.ES2022 });
    this.checker = this.program.getTypeChecker();
  }

  /** Adds an interface that one of the files exports. */
  add(name: string): void {
    for (const file of this.files) {
      const source = this.program.getSourceFile(join(packageRoot, file)) as ts.SourceFile;
      const module = this.checker.getSymbolAtLocation(source) as ts.Symbol;
      const symbol = this.checker.getExportsOfModule(module).find((each) => each.name === name);
      if (symbol !== undefined) return void this.schema(this.checker.getDeclaredTypeOfSymbol(symbol));
    }
    throw new Error(`no file exports ${name}`);
  }

  private schema(type: ts.Type): Schema {
    if (type.isUnion()) return this.union(type);
    if (type.isStringLiteral() || type.isNumberLiteral()) return { const: type.value };
    if (type.flags & ts.TypeFlags.String) return { type: 'string' };
    if (type.flags & ts.TypeFlags.Number) return { type: 'number' };
    if (type.flags & ts.TypeFlags.Boolean) return { type: 'boolean' };
    if (type.flags & ts.TypeFlags.Null) return { type: 'null' };
    const element = this.checker.getIndexTypeOfType(type, ts.IndexKind.Number);
    if (this.checker.isArrayType(type) && element) return { type: 'array', items: this.schema(element) };
    if (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) return this.object(type);
    throw new Error(`no schema for ${this.checker.typeToString(type)}`);
  }

  private union({ types }: ts.UnionType): Schema {
    const parts = types.filter(({ flags }) => !(flags & ts.TypeFlags.Undefined));
    if (parts.length > 0 && parts.every(({ flags }) => flags & ts.TypeFlags.BooleanLiteral))
      return { type: 'boolean' };
    const isBoolean = (part: ts.Type) => (part.flags & ts.TypeFlags.BooleanLiteral) !== 0;
    const schemas = parts.filter((part) => !isBoolean(part)).map((part) => this.schema(part));
    if (parts.some(isBoolean)) schemas.push({ type: 'boolean' });
    const constants = schemas.filter((each) => 'const' in each).map((each) => each.const);
    const others = schemas.filter((each) => !('const' in each));
    const choices = [...(constants.length > 0 ? [{ enum: constants }] : []), ...others];
    return choices.length === 1 ? choices[0] : { anyOf: choices };
  }

  private object(type: ts.Type): Schema {
    const { symbol } = type;
    const isNamed = type.isClassOrInterface() && symbol !== undefined;
    if (isNamed && symbol.name in this.schemas) return { $ref: `#/components/schemas/${symbol.name}` };
    const schema: Schema = { type: 'object', additionalProperties: false };
    if (isNamed) this.schemas[symbol.name] = schema;
    this.fill(schema, type);
    return isNamed ? { $ref: `#/components/schemas/${symbol.name}` } : schema;
  }

  private fill(schema: Schema, type: ts.Type): void {
    const more = this.checker.getIndexTypeOfType(type, ts.IndexKind.String);
    if (more) schema.additionalProperties = this.schema(more);
    const properties = this.checker.getPropertiesOfType(type);
    if (properties.length === 0) return;
    const isOptional = ({ flags }: ts.Symbol) => (flags & ts.SymbolFlags.Optional) !== 0;
    schema.required = properties.filter((each) => !isOptional(each)).map(({ name }) => name);
    schema.properties = Object.fromEntries(
      properties.map((each) => {
        const description = ts.displayPartsToString(each.getDocumentationComment(this.checker));
        const value = this.schema(this.checker.getTypeOfSymbol(each));
        return [each.name, description === '' ? value : { ...value, description }];
      }),
    );
  }
}
