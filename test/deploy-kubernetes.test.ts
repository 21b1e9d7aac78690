import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { packageRoot, version } from '../src/paths.js';
import { parsePolicy } from '../src/policy/load.js';

/**
 * The manifests against the API's own schemas, as the npm package kubernetes-models has them: its validators check what must be
 * there and of what type, its types find keys that do not exist.
 */
const FOLDER = `${packageRoot}/deploy/kubernetes`;
const LIMIT = { timeout: 120_000 };
const MODELS: Record<string, string> = {
  DaemonSet: 'kubernetes-models/apps/v1/DaemonSet',
  Namespace: 'kubernetes-models/v1/Namespace',
  ServiceAccount: 'kubernetes-models/v1/ServiceAccount',
};

interface Manifest {
  apiVersion: string;
  kind: string;
}
interface Kustomization extends Manifest {
  resources: string[];
  images?: { name: string; newTag: string }[];
  patches?: { path: string }[];
  configMapGenerator: { name: string; files: string[] }[];
}
interface DaemonSet extends Manifest {
  spec: {
    template: {
      spec: {
        hostPID: boolean;
        terminationGracePeriodSeconds: number;
        volumes: { name: string; configMap?: { name: string } }[];
        containers: {
          image: string;
          args: string[];
          env: { name: string; value?: string }[];
          volumeMounts: { name: string; mountPath: string }[];
          lifecycle: { preStop: { exec: { command: string[] } } };
          readinessProbe: { exec: { command: string[] } };
          securityContext: { privileged: boolean };
        }[];
      };
    };
  };
}

const read = <T extends Manifest>(path: string): T => parse(readFileSync(join(FOLDER, path), 'utf8')) as T;

/** What the API server would not take of a manifest: wrong types, missing keys. */
function validate(manifest: Manifest): void {
  const model = createRequire(import.meta.url)(MODELS[manifest.kind]) as Record<
    string,
    new (data: Manifest) => { validate(): void }
  >;
  new model[manifest.kind](manifest).validate();
}

/** Errors of the compiler when the manifests are taken as what they say they are: keys that the API does not have. */
function typeErrors(manifests: readonly Manifest[]): string[] {
  const name = join(packageRoot, 'test/kubernetes-manifests.ts');
  const source = manifests
    .map((manifest, i) => {
      const from = `import type { I${manifest.kind} as M${i} } from '${MODELS[manifest.kind]}';`;
      return `${from}\nexport const m${i}: M${i} = ${JSON.stringify(manifest)};`;
    })
    .join('\n');
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (file) => file === name || fileExists(file);
  host.getSourceFile = (file, version) =>
    file === name ? ts.createSourceFile(file, source, version) : getSourceFile.call(host, file, version);
  const program = ts.createProgram([name], options, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}

const base = read<Kustomization>('base/kustomization.yaml');
const manifests = base.resources.map((path) => read(`base/${path}`));
const daemonSet = manifests.find(({ kind }) => kind === 'DaemonSet') as DaemonSet;
const pod = daemonSet.spec.template.spec;
const [container] = pod.containers;

describe('the manifests', () => {
  it('are what the API takes', LIMIT, () => {
    expect(manifests.map(({ kind }) => kind).sort()).toEqual(Object.keys(MODELS).sort());
    for (const manifest of manifests) expect(() => validate(manifest), manifest.kind).not.toThrow();
    const patch = read('overlays/example/daemonset-patch.yaml');
    expect(typeErrors([...manifests])).toEqual([]);
    expect(patch).toMatchObject({ apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { name: 'agentzip' } });
  });

  it('would be found wrong', LIMIT, () => {
    const wrong = structuredClone(daemonSet);
    Object.assign(wrong.spec.template.spec, { hostPid: true });
    expect(typeErrors([wrong])).toEqual([expect.stringMatching(/hostPid.* does not exist/)]);
    Object.assign(wrong.spec.template.spec, { terminationGracePeriodSeconds: '30m' });
    expect(() => validate(wrong)).toThrow(/terminationGracePeriodSeconds/);
  });

  it('drain before a pod ends, and ask the control socket whether it is ready', () => {
    expect(container.lifecycle.preStop.exec.command).toEqual(['agentzip', 'drain']);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(1800);
    const probe = container.readinessProbe.exec.command;
    expect(probe.slice(-2)).toEqual(['/run/agentzip/agentzip.sock', 'http://agentzip/v1/healthz']);
    expect([pod.hostPID, container.securityContext.privileged]).toEqual([true, true]);
  });

  it('mount each volume that they name, and use variables that are defined before', () => {
    const mounted = container.volumeMounts.map(({ name }) => name).sort();
    expect(mounted).toEqual(pod.volumes.map(({ name }) => name).sort());
    const paths = container.volumeMounts.map(({ mountPath }) => mountPath);
    for (const path of ['/run/agentzip', '/var/lib/agentzip', '/sys', '/dev', '/run/containerd'])
      expect(paths).toContain(path);
    const defined = new Set<string>();
    for (const { name, value = '' } of container.env) {
      for (const [, used] of value.matchAll(/\$\((\w+)\)/g)) expect(defined).toContain(used);
      defined.add(name);
    }
  });

  it('bring policies that are valid, under the name that the pod mounts', () => {
    for (const folder of ['base', 'overlays/example']) {
      const { configMapGenerator } = read<Kustomization>(`${folder}/kustomization.yaml`);
      expect(configMapGenerator).toMatchObject([{ name: 'agentzip-policy', files: ['agentzip.yaml'] }]);
      parsePolicy(readFileSync(`${FOLDER}/${folder}/agentzip.yaml`, 'utf8'));
    }
    expect(pod.volumes).toContainEqual({ name: 'policy', configMap: { name: 'agentzip-policy' } });
    expect(container.args).toEqual(['run', '--policy', '/etc/agentzip/agentzip.yaml']);
  });

  it('are all named by a kustomization, with this version', () => {
    const example = read<Kustomization>('overlays/example/kustomization.yaml');
    const files = readdirSync(`${FOLDER}/base`).filter((name) => name !== 'kustomization.yaml');
    expect([...base.resources, 'agentzip.yaml'].sort()).toEqual(files.sort());
    for (const { path } of example.patches ?? [])
      expect(existsSync(`${FOLDER}/overlays/example/${path}`)).toBe(true);
    expect(existsSync(`${FOLDER}/overlays/example/${example.resources[0]}/kustomization.yaml`)).toBe(true);
    const [name, tag] = container.image.split(':');
    expect(example.images).toMatchObject([{ name, newTag: tag }]);
    expect(tag).toBe(version);
  });
});

describe('the image', () => {
  it('starts the command that the pod gives options to', () => {
    const lines = readFileSync(`${packageRoot}/deploy/docker/Dockerfile`, 'utf8').split('\n');
    expect(lines).toContain('ENTRYPOINT ["agentzip"]');
    expect(lines).toContain('CMD ["run"]');
    const packages = lines.find((line) => line.includes('apt-get install')) ?? '';
    // What the README says is needed, and what the probes of the pod ask with.
    for (const name of ['libbpf1', 'libzstd1', 'curl']) expect(packages).toContain(name);
    expect(lines.join('\n')).toContain(`agentzip:${version}`);
  });
});
