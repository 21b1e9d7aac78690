import { describe, expect, it } from 'vitest';
import { testRandom } from './support/seed.js';
import { VirtualAgent } from './support/virtual-agent.js';

const PROMPT = 20_000;
/** An agent that has a connection and has just sent a prompt. */
const asking = (): VirtualAgent =>
  new VirtualAgent().handshake().pass(500).receive(500).pass(500).send(PROMPT);
/** One that has been waiting for a second. */
const waiting = (): VirtualAgent => asking().pass(1000);

describe('a turn', () => {
  it('is a wait from the silence after the prompt to the first token, then a stream, a tool, and the next wait', () => {
    const agent = asking();
    const sentAt = agent.now;
    agent.pass(3000);
    expect(agent.phase).toBe('llm_wait');
    agent.receive(1500);
    expect(agent.phase).toBe('llm_streaming');
    for (let token = 0; token < 40; token++) agent.pass(50).receive(150);
    expect(agent.phase).toBe('llm_streaming');
    agent.fork();
    expect(agent.phase).toBe('tool_running');
    agent.busy = 0.9;
    agent.pass(700);
    agent.busy = 0;
    agent.send(PROMPT).pass(500);
    expect(agent.phases.map(([, phase]) => phase)).toEqual([
      ...['unknown', 'llm_wait', 'llm_streaming', 'tool_running', 'llm_wait'],
    ]);
    expect(agent.phases[1][0] - sentAt).toBeLessThanOrEqual(30);
  });

  it('without a tool ends idle, some time after the stream', () => {
    expect(waiting().receive(900).pass(1900).phase).toBe('llm_streaming');
    expect(waiting().receive(900).pass(2100).phase).toBe('idle');
  });

  it('whose prompt is sent in pieces waits from the last', () => {
    const agent = new VirtualAgent().send(600, 1, 8080).pass(20).send(PROMPT, 1, 8080);
    for (let piece = 0; piece < 10; piece++) agent.pass(20).send(PROMPT, 1, 8080);
    expect(agent.phase).toBe('unknown');
    expect(agent.pass(30).phase).toBe('llm_wait');
  });

  it('that ends with the connection is no wait any more', () => {
    expect(waiting().close().phase).toBe('idle');
  });

  it('of which two ask at once waits until the first answer', () => {
    const agent = waiting().send(PROMPT, 2, 8080).pass(100);
    expect(agent.phase).toBe('llm_wait');
    expect(agent.receive(500, 2, 8080).phase).toBe('llm_streaming');
    // The stream has ended, and the other answer is still awaited.
    expect(agent.pass(2500).phase).toBe('llm_wait');
  });

  it('that nobody answers for a quarter of an hour is unknown', () => {
    expect(waiting().pass(14 * 60_000).phase).toBe('llm_wait');
    expect(waiting().pass(16 * 60_000).phase).not.toBe('llm_wait');
  });
});

describe('what is no prompt opens no window', () => {
  const never = (agent: VirtualAgent): void =>
    expect(agent.phases.map(([, phase]) => phase)).not.toContain('llm_wait');

  it('a handshake, however slow the server', () => {
    never(new VirtualAgent().handshake(800).pass(1000));
  });

  it('pings of HTTP/2, answered or not', () => {
    const agent = new VirtualAgent().handshake();
    for (let ping = 0; ping < 100; ping++) {
      agent.send(39).pass(30);
      if (ping % 2 === 0) agent.receive(39);
      agent.pass(1500);
    }
    never(agent);
  });

  it('window updates while a long answer is read', () => {
    const agent = waiting();
    for (let chunk = 0; chunk < 200; chunk++) agent.receive(16_000).send(35).pass(10);
    expect(agent.phases.filter(([, phase]) => phase === 'llm_wait')).toHaveLength(1);
    expect(agent.phase).toBe('llm_streaming');
  });

  it('a small post, and a large one that is answered at once', () => {
    const agent = new VirtualAgent().handshake().pass(100).receive(500);
    agent.send(700).pass(150).receive(400).pass(3000);
    agent.send(6000).pass(15).receive(400).pass(3000);
    never(agent);
  });

  it('a client that goes on computing after it has sent', () => {
    const agent = asking();
    agent.busy = 0.6;
    never(agent.pass(2000));
    agent.busy = 0.02;
    expect(agent.pass(200).phase).toBe('llm_wait');
  });
});

describe('what is no answer ends no window', () => {
  it('window updates and pings of the server', () => {
    const agent = asking();
    for (let i = 0; i < 20; i++) agent.pass(40).receive(i % 2 === 0 ? 39 : 35);
    expect(agent.phase).toBe('llm_wait');
    expect(agent.receive(300).phase).toBe('llm_streaming');
  });

  it('100 Continue', () => {
    const agent = new VirtualAgent().send(PROMPT, 1, 8080).pass(100).receive(25, 1, 8080);
    expect(agent.pass(100).phase).toBe('llm_wait');
  });

  it('session tickets that follow the handshake, while the first prompt is on its way', () => {
    const agent = new VirtualAgent().handshake().send(PROMPT).pass(40).receive(560);
    expect(agent.pass(500).phase).toBe('llm_wait');
    expect(agent.receive(300).phase).toBe('llm_streaming');
  });
});

describe('a wait that is interrupted', () => {
  it('by a process that starts is a tool at once, and a wait again when that is silent', () => {
    const agent = waiting().fork();
    expect(agent.phase).toBe('tool_running');
    expect(agent.pass(200).phase).toBe('llm_wait');
  });

  it('by computing is a tool within two looks', () => {
    const agent = waiting();
    agent.busy = 0.8;
    expect(agent.pass(100).phase).toBe('tool_running');
  });

  it('again and again is a wait for less and less of the time', () => {
    const agent = waiting();
    for (let i = 0; i < 60; i++) agent.pass(1000).fork();
    expect(agent.phases.filter(([, phase]) => phase === 'llm_wait').length).toBeLessThan(10);
    expect(agent.receive(500).pass(100).send(PROMPT).pass(100).phase).toBe('llm_wait');
  });
});

describe('an agent outside the sandbox', () => {
  it('runs a tool from its request to the quiet after the answer, and waits then', () => {
    const agent = new VirtualAgent().inbound('asked');
    expect(agent.phase).toBe('tool_running');
    expect(agent.pass(60_000).phase).toBe('tool_running');
    agent.inbound('answered').pass(900);
    expect(agent.phase).toBe('tool_running');
    expect(agent.pass(200).phase).toBe('llm_wait');
    expect(agent.inbound('asked').phase).toBe('tool_running');
  });

  it('runs a tool as long as a process that it brought in lives, however silent', () => {
    const agent = new VirtualAgent().enter(70).pass(60_000);
    expect(agent.phase).toBe('tool_running');
    expect(agent.enter(71).exit(70).pass(5000).phase).toBe('tool_running');
    expect(agent.exit(71).pass(900).phase).toBe('tool_running');
    expect(agent.pass(200).phase).toBe('llm_wait');
    // One that was not brought in changes nothing.
    expect(agent.exit(72).phase).toBe('llm_wait');
    expect(agent.enter(73).phase).toBe('tool_running');
  });

  it('is not one that asks a model itself', () => {
    const agent = new VirtualAgent().enter(70).exit(70);
    agent.send(PROMPT, 1, 8080).pass(100).receive(900, 1, 8080).pass(3000);
    expect(agent.enter(71).exit(71).pass(20_000).phase).toBe('idle');
  });

  it('waits for no answer when its tool still computes', () => {
    const agent = new VirtualAgent().inbound('asked').pass(100).inbound('answered');
    agent.busy = 0.7;
    expect(agent.pass(3000).phase).toBe('tool_running');
  });

  it('is not taken for one because of a connection of a former sandbox', () => {
    expect(new VirtualAgent().inbound('asked', 9, 0).phase).toBe('unknown');
  });
});

describe('without evidence', () => {
  it('it is unknown first, and idle after a while', () => {
    const agent = new VirtualAgent().pass(9000);
    expect(agent.phase).toBe('unknown');
    expect(agent.pass(2000).phase).toBe('idle');
  });

  it('after a loss it is unknown until the next prompt', () => {
    const agent = waiting();
    agent.detector.lost(agent.now);
    expect(agent.pass(5000).phase).toBe('unknown');
    expect(agent.receive(3000).phase).toBe('unknown');
    expect(agent.send(PROMPT).pass(100).phase).toBe('llm_wait');
  });
});

describe('at random', () => {
  it('a wait is entered silent and asked for only, and left at once by what ends it', () => {
    const random = testRandom('phases');
    for (let round = 0; round < 300; round++) {
      const agent = new VirtualAgent();
      const log: string[] = [];
      /** What an onlooker who sees every byte would say; ports other than 443, so that there is no handshake. */
      let owed = 0;
      let lastDone = agent.now;
      /** When each connection was asked by; what was asked by one that is closed is nobody's question any more. */
      const asked = new Map<number, number>();
      for (let step = 0; step < 60; step++) {
        const connection = 1 + random.below(2);
        let act = random.pick(['prompt', 'answer', 'fork', 'busy', 'pass', 'pass', 'close', 'lost'] as const);
        // What nobody asked for is no answer.
        if (act === 'answer' && (owed & connection) === 0) act = 'pass';
        log.push(`${act} ${connection}`);
        const waited = agent.phase === 'llm_wait';
        if (act === 'prompt') agent.send(2000 + random.below(50_000), connection, 8080);
        if (act === 'answer') agent.receive(64 + random.below(5000), connection, 8080);
        if (act === 'fork') agent.fork();
        if (act === 'close') agent.close(connection);
        if (act === 'lost') agent.detector.lost(agent.now);
        if (act === 'busy') {
          agent.busy = 0.3 + 0.7 * random.next();
          agent.pass(100 + random.below(500));
          agent.busy = 0;
        }
        if (act === 'prompt') owed |= connection;
        if (act === 'answer' || act === 'close') owed &= ~connection;
        if (act === 'lost') owed = 0;
        // A further prompt in a wait does not end it; what is computed counts at the looks.
        if (act === 'fork') lastDone = agent.now;
        if (act === 'prompt' && !waited) asked.set(connection, agent.now);
        if (act === 'close') asked.delete(connection);
        if (act === 'fork' || act === 'answer') expect(agent.phase, log.join()).not.toBe('llm_wait');
        if (act === 'pass') agent.pass(random.below(4000));
        if (agent.phase === 'llm_wait') {
          expect(owed, log.join()).toBeGreaterThan(0);
          expect(agent.now - Math.max(lastDone, ...asked.values()), log.join()).toBeGreaterThanOrEqual(25);
        }
      }
    }
  });
});
