import type { Container } from './containerd-api.js';

/** Labels that containerd's CRI plugin gives containers of pods (pkg/cri/server/helpers.go, buildLabels). */
const KIND = 'io.cri-containerd.kind';
const POD_UID = 'io.kubernetes.pod.uid';
const POD_NAMESPACE = 'io.kubernetes.pod.namespace';
const POD_NAME = 'io.kubernetes.pod.name';
const CONTAINER_NAME = 'io.kubernetes.container.name';

/** What the pod of a container, if it is of one, says of it. */
export interface Pod {
  /** `NAMESPACE.POD.CONTAINER`; null: it is of no pod. */
  name: string | null;
  /** Its name within the pod. */
  container: string | null;
  /** Its labels over those of the pod. */
  labels: Record<string, string>;
  /** It is what holds the pod's namespaces, and no container that anybody has asked for. */
  isSandbox: boolean;
}

/** Labels of each pod by its uid: those that Kubernetes gave the pod are labels of its sandbox. */
export function podsOf(containers: readonly Container[]): Map<string, Record<string, string>> {
  const sandboxes = containers.filter(({ labels }) => labels[KIND] === 'sandbox');
  return new Map(sandboxes.map(({ labels }) => [labels[POD_UID] ?? '', labels]));
}

export function podOf({ labels }: Container, pods: ReadonlyMap<string, Record<string, string>>): Pod {
  const uid = labels[POD_UID];
  const container = labels[CONTAINER_NAME] ?? null;
  const of = uid === undefined ? {} : pods.get(uid);
  return {
    name: container === null ? null : `${labels[POD_NAMESPACE]}.${labels[POD_NAME]}.${container}`,
    container,
    labels: { ...of, ...labels },
    isSandbox: labels[KIND] === 'sandbox',
  };
}
