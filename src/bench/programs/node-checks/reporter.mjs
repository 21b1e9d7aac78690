// Test results without times: one line a test, `ok` or `not ok`, its depth and name, and why it failed.

const firstLine = (error) => String(error?.cause?.message ?? error?.message ?? error).split('\n')[0];

export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type === 'test:pass') yield `ok ${data.nesting} ${data.name}\n`;
    if (type === 'test:fail') yield `not ok ${data.nesting} ${data.name}: ${firstLine(data.details.error)}\n`;
  }
}
