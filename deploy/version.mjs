// Part of `npm version`: package.json has the version, and the files that others read of it get the same. Tests compare them.
import { readFileSync, writeFileSync } from 'node:fs';

const root = new URL('..', import.meta.url);
const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
for (const name of ['plugin-manifest.json', 'docs/openapi.json']) {
  const file = new URL(name, root);
  const text = readFileSync(file, 'utf8');
  // The first one is the document's own.
  writeFileSync(
    file,
    text.replace(/"version": "[^"]*"/, () => `"version": "${version}"`),
  );
}
for (const name of [
  'deploy/docker/Dockerfile',
  'deploy/kubernetes/base/daemonset.yaml',
  'deploy/kubernetes/overlays/example/kustomization.yaml',
]) {
  const file = new URL(name, root);
  const text = readFileSync(file, 'utf8');
  writeFileSync(
    file,
    text.replace(/(agentzip:|newTag: )\d+\.\d+\.\d+\S*/g, (_, before) => before + version),
  );
}
