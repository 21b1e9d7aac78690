import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { SystemError } from '../../native/errno.js';
import { PAGE } from '../../native/libc.js';
import type { ChannelPlan } from '../requests/channel.js';
import type { FrontEnd } from '../front-end.js';
import { UblkControl } from './control.js';
import * as ublk from './protocol.js';

const { Feature, Info, Params } = ublk;
const PAGE_SHIFT = 12;
const APPEAR_MS = 2_000;
const POLL_MS = 5;
/** "AZip": the device is a pager's; the other word of the mark says whose. */
const MARK = 0x70695a41;

/** Tells the devices of one runtime directory from those of others (32-bit FNV-1a). */
function markOf(runtimeDir: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(runtimeDir)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** A ublk device: its requests come to the data loop itself, without any other thread between. */
export class Ublk implements FrontEnd {
  private readonly control = new UblkControl();
  private started = false;

  /** `id`: of a device that there is already. */
  private constructor(
    private readonly options: { runtimeDir: string; deviceBytes: number },
    private id: number,
  ) {}

  static create(options: Ublk['options']): Ublk {
    return new Ublk(options, ublk.NEW_DEVICE);
  }

  /** The device of a pager that is gone: served, and swap already. */
  static adopt(options: Ublk['options'], id: number): Ublk {
    const frontEnd = new Ublk(options, id);
    frontEnd.started = true;
    return frontEnd;
  }

  get attached(): boolean {
    return this.started;
  }

  get device(): string {
    return blockDevice(this.id);
  }

  /** AZ_UBLK_MISSING when the driver refuses. */
  prepare(): ChannelPlan {
    try {
      this.add();
      this.describe();
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (this.id !== ublk.NEW_DEVICE) removeDevice(this.control, this.id);
      throw new AgentZipError('AZ_UBLK_MISSING', { reason: error.message });
    }
    return { frontEnd: 'ublk', id: this.id };
  }

  private add(): void {
    const { control } = this;
    const info = control.clear();
    info.setUint16(Info.QUEUES, 1, true);
    info.setUint16(Info.DEPTH, ublk.DEPTH, true);
    info.setUint32(Info.MAX_IO_BYTES, ublk.MAX_IO, true);
    info.setUint32(Info.ID, ublk.NEW_DEVICE, true);
    info.setInt32(Info.SERVER_PID, process.pid, true);
    // Without recovery a device whose server died is gone, and swap that is on it can not be turned off any more.
    const recovery = Feature.USER_RECOVERY | Feature.USER_RECOVERY_REISSUE;
    info.setUint32(Info.FLAGS, Feature.USER_COPY | recovery, true);
    info.setUint32(Info.MARK, MARK, true);
    info.setUint32(Info.MARK + 4, markOf(this.options.runtimeDir), true);
    control.run('ADD_DEV', ublk.NEW_DEVICE, { length: Info.BYTES });
    this.id = control.buffer.getUint32(Info.ID, true);
  }

  /** Tells the kernel what device it is: sectors of a page, no cache that a flush would empty. */
  private describe(): void {
    const params = this.control.clear();
    params.setUint32(Params.LENGTH, Params.BYTES, true);
    params.setUint32(Params.TYPES, ublk.PARAMS_BASIC_AND_DISCARD, true);
    for (const shift of ['LOGICAL_SHIFT', 'PHYSICAL_SHIFT', 'IO_OPTIMAL_SHIFT', 'IO_LEAST_SHIFT'] as const)
      params.setUint8(Params[shift], PAGE_SHIFT);
    params.setUint32(Params.MAX_SECTORS, ublk.MAX_IO / ublk.SECTOR, true);
    const pages = Math.floor(this.options.deviceBytes / PAGE);
    params.setBigUint64(Params.SECTORS, BigInt(pages) * BigInt(PAGE / ublk.SECTOR), true);
    params.setUint32(Params.DISCARD_GRANULARITY, PAGE, true);
    params.setUint32(Params.MAX_DISCARD_SECTORS, ublk.MAX_DISCARD / ublk.SECTOR, true);
    params.setUint32(Params.MAX_WRITE_ZEROES_SECTORS, ublk.MAX_DISCARD / ublk.SECTOR, true);
    params.setUint16(Params.MAX_DISCARD_SEGMENTS, 1, true);
    this.control.run('SET_PARAMS', this.id, { length: Params.BYTES });
  }

  /** The data loop fetches requests already: the driver waits for that. */
  async attach(): Promise<void> {
    this.control.run('START_DEV', this.id, { data: process.pid });
    this.started = true;
    for (let waited = 0; !existsSync(this.device); waited += POLL_MS) {
      if (waited >= APPEAR_MS) throw new AgentZipError('AZ_UBLK_MISSING', { reason: `no ${this.device}` });
      await sleep(POLL_MS);
    }
  }

  settle(): void {}

  detach(): Promise<void> {
    if (this.id !== ublk.NEW_DEVICE) removeDevice(this.control, this.id);
    this.started = false;
    return Promise.resolve();
  }
}

export const blockDevice = (id: number): string => `/dev/ublkb${id}`;

/** Requests that wait are failed; whoever holds the device open keeps an empty shell. */
export function removeDevice(control: UblkControl, id: number): void {
  control.run('STOP_DEV', id);
  control.run('DEL_DEV_ASYNC', id);
}

/** Devices that pagers of a runtime directory have made. */
export function devicesOf(control: UblkControl, runtimeDir: string): { id: number; serverPid: number }[] {
  const folder = '/sys/class/ublk-char';
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const id = Number(name.replace('ublkc', ''));
    const info = control.clear();
    if (control.attempt('GET_DEV_INFO', id, { length: Info.BYTES }) !== 0) return [];
    const ours = info.getUint32(Info.MARK, true) === MARK;
    if (!ours || info.getUint32(Info.MARK + 4, true) !== markOf(runtimeDir)) return [];
    return { id, serverPid: info.getInt32(Info.SERVER_PID, true) };
  });
}
