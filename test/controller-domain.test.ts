import { expect, test } from 'vitest';
import { mayUseTemplate, trustDomain } from '../src/controller/claims/domain.js';

const domain = (id: string, tenant?: string, template?: string): string =>
  trustDomain({ id, tenant, template }, 'tenant-template');

test('by default sandboxes of one tenant and one template share', () => {
  expect(domain('a', 'acme', 'python')).toBe('acme/python');
  expect(domain('b', 'acme', 'python')).toBe('acme/python');
  expect(domain('c', 'acme', 'node')).not.toBe('acme/python');
  expect(domain('d', 'other', 'python')).not.toBe('acme/python');
});

test('a sandbox without a tenant is its own, whatever others are called', () => {
  expect(domain('a', undefined, 'python')).not.toBe(domain('b', undefined, 'python'));
  expect(domain('a', undefined, 'python')).not.toBe(domain('x', 'a', 'python'));
  expect(domain('a', undefined, 'python')).not.toBe(domain('x', ':a', 'python'));
});

test('a sandbox without a template shares with nobody in a domain by template', () => {
  expect(domain('a', 'acme')).not.toBe(domain('b', 'acme'));
});

test('separators in names do not make two origins look alike', () => {
  expect(domain('a', 'x/y', 'z')).not.toBe(domain('a', 'x', 'y/z'));
  expect(domain('a', 'x', '')).not.toBe(trustDomain({ id: 'a', tenant: 'x/' }, 'tenant'));
});

test('the policy widens or narrows it', () => {
  const one = { id: 'a', tenant: 'acme', template: 'python' };
  expect(trustDomain(one, 'tenant')).toBe(trustDomain({ id: 'b', tenant: 'acme' }, 'tenant'));
  expect(trustDomain(one, 'sandbox')).not.toBe(trustDomain({ ...one, id: 'b' }, 'sandbox'));
});

test('a template serves its tenant, or everybody when it is public', () => {
  const sandbox = { id: 'a', tenant: 'acme' };
  expect(mayUseTemplate(sandbox, { tenant: 'acme', public: false })).toBe(true);
  expect(mayUseTemplate(sandbox, { tenant: 'other', public: false })).toBe(false);
  expect(mayUseTemplate(sandbox, { tenant: null, public: false })).toBe(false);
  expect(mayUseTemplate({ id: 'a' }, { tenant: null, public: false })).toBe(false);
  expect(mayUseTemplate({ id: 'a' }, { tenant: null, public: true })).toBe(true);
});
