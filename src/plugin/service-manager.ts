import { explain } from '../errors.js';
import { sendDatagram } from '../native/notify.js';

/**
 * The service manager that started us, if it wants to be told (sd_notify(3)): when the device is swap and the control
 * socket answers, so that what is ordered behind us starts no earlier, and why a drain was refused, which
 * `systemctl status` then shows. A drain is never announced (STOPPING=1): one that is refused leaves the service as it was.
 */
export class ServiceManager {
  private readonly path: string | undefined;

  constructor(
    private readonly warn: (text: string) => void,
    environment: NodeJS.ProcessEnv = process.env,
  ) {
    this.path = environment.NOTIFY_SOCKET;
  }

  ready(device: string): void {
    this.tell(`READY=1\nSTATUS=${oneLine(`serves swap on ${device}`)}`);
  }

  status(text: string): void {
    this.tell(`STATUS=${oneLine(text)}`);
  }

  private tell(state: string): void {
    if (this.path === undefined || this.path === '') return;
    try {
      sendDatagram(this.path, state);
    } catch (error) {
      // It will think that we do not start; that is no reason to take the device away from sandboxes.
      this.warn(`warning: the service manager could not be told (${explain(error)})`);
    }
  }
}

const oneLine = (text: string): string => text.replaceAll('\n', '; ');
