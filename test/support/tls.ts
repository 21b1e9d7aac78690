import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** A key and a certificate that nobody trusts, made anew; null, said aloud, without openssl (in CI it throws). */
export function selfSigned(): { key: string; cert: string } | null {
  const folder = mkdtempSync(`${tmpdir()}/agentzip-tls-`);
  try {
    const to = ['-keyout', `${folder}/key`, '-out', `${folder}/cert`];
    const kind = [
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ];
    execFileSync('openssl', ['req', ...kind, ...to, '-subj', '/CN=model'], {
      stdio: 'ignore',
      timeout: 30_000,
    });
    return { key: readFileSync(`${folder}/key`, 'utf8'), cert: readFileSync(`${folder}/cert`, 'utf8') };
  } catch (error) {
    if (process.env.CI) throw error;
    process.stderr.write('SKIPPED: TLS is not tested here, for want of openssl\n');
    return null;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
