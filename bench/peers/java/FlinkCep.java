import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.util.Collector;

/**
 * The worker of the peer Flink CEP: runs the query of a job on events that it holds in memory.
 *
 * <p>Arguments: the job (JSON, see peer.py) and its events in the form that flink_events.py writes. All of the job
 * runs in this process, so that its parts share the static fields.
 */
public final class FlinkCep {
    /** So many events share a watermark. CEP sorts what lies between two of them. With 1 or 1000 it is slower. */
    private static final int BATCH = 20;

    private static final int WARM_UP_EVENTS = 200_000;
    private static final double WARM_UP_SECONDS = 2.0;
    private static final int WARM_UPS = 2; // what was compiled for the first job is compiled anew for the second
    private static final int SAMPLES = 10; // of memory, for each run
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private static Event[] events;
    private static List<String> names;
    private static Measured run;

    /** An event; `values` are the columns other than type and time: String, Long or Double. */
    public static final class Event {
        public int position;
        public long time;
        public String type;
        public Object[] values;
    }

    /** One run: what it may do, and what came out. */
    private static final class Measured {
        int limit;
        double seconds;
        boolean memory;
        int read;
        double wall;
        double cpu;
        long matches;
        long triggers;
        int lastTrigger = -1;
        long ofTrigger;
        long most;
        long heap;
        Thread reader;
        final List<int[]> found = new ArrayList<>();
    }

    public static void main(String[] arguments) throws Exception {
        try {
            JsonNode job = new ObjectMapper().readTree(new File(arguments[0]));
            readEvents(arguments[1]);
            boolean memory = job.get("memory").asBoolean();
            double seconds = job.get("seconds").asDouble();
            for (int k = 0; k < WARM_UPS; k++) {
                run(job.get("pattern"), WARM_UP_EVENTS, Math.min(seconds, WARM_UP_SECONDS), false);
            }
            for (int k = 0; k < job.get("runs").asInt(); k++) {
                run = null;
                long before = memory ? heap() : 0;
                Measured done = run(job.get("pattern"), events.length, seconds, memory);
                System.out.printf(
                        Locale.ROOT,
                        "{\"events\": %d, \"wall\": %.6f, \"cpu\": %.6f, \"matches\": %d, \"triggers\": %d,"
                                + " \"megabytes\": %.3f}%n",
                        done.read, done.wall, done.cpu, done.matches, done.triggers,
                        memory ? (done.heap - before) / 1e6 : 0.0);
            }
        } catch (Throwable failure) {
            Throwable cause = failure;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println("{\"error\": " + new ObjectMapper().writeValueAsString(cause.toString()) + "}");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // threads of the cluster must not keep the process alive
    }

    private static Measured run(JsonNode query, int limit, double seconds, boolean memory) throws Exception {
        run = new Measured();
        run.limit = Math.min(limit, events.length);
        run.seconds = seconds;
        run.memory = memory;
        run.most = query.get("limit").isNull() ? Long.MAX_VALUE : query.get("limit").asLong();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        environment.getConfig().disableAutoGeneratedUIDs();
        DataStream<Event> stream = environment.addSource(new Reader(), TypeInformation.of(Event.class)).uid("events");
        AfterMatchSkipStrategy skip =
                query.get("consume").asBoolean()
                        ? AfterMatchSkipStrategy.skipPastLastEvent()
                        : AfterMatchSkipStrategy.noSkip();
        Pattern<Event, Event> pattern =
                sequence(query.get("parts"), query.get("strategy").asText().equals("ALL"), skip, new int[1]);
        if (!query.get("window").isNull()) {
            // Flink wants less than the bound between first and last; here both ends are included.
            pattern = pattern.within(Duration.ofMillis(query.get("window").asLong() + 1));
        }
        CEP.pattern(keyed(stream, query.get("key")), pattern)
                .inEventTime()
                .process(new Keep(), Types.INT)
                .uid("matches")
                .sinkTo(new DiscardingSink<>())
                .uid("end");
        environment.execute();
        return run;
    }

    /**
     * The stream as CEP needs it: with a key, one for all events if the query has none.
     *
     * <p>With one task, all events are where their key belongs: no exchange between threads is needed.
     */
    private static KeyedStream<Event, ?> keyed(DataStream<Event> stream, JsonNode key) {
        if (key.isNull()) {
            return DataStreamUtils.reinterpretAsKeyedStream(stream, event -> 0, Types.INT);
        }
        if (key.asText().equals("type")) {
            return DataStreamUtils.reinterpretAsKeyedStream(stream, event -> event.type, Types.STRING);
        }
        int column = names.indexOf(key.asText());
        if (events[0].values[column] instanceof Long) {
            return DataStreamUtils.reinterpretAsKeyedStream(stream, event -> (Long) event.values[column], Types.LONG);
        }
        return DataStreamUtils.reinterpretAsKeyedStream(stream, event -> event.values[column].toString(), Types.STRING);
    }

    /**
     * The parts one after another. `any`: an event may be skipped even where it would do (skip till any match).
     *
     * <p>After a group, Flink waits at its first step for another turn, and skips events there. If it could also skip
     * them at the step that follows the group, it would find each match once for each of these events.
     * Therefore `next`.
     */
    private static Pattern<Event, Event> sequence(
            JsonNode parts, boolean any, AfterMatchSkipStrategy skip, int[] number) {
        Pattern<Event, Event> all = null;
        boolean afterGroup = false;
        for (JsonNode part : parts) {
            boolean group = part.has("parts");
            if (group) {
                Pattern<Event, Event> inner = sequence(part.get("parts"), any, skip, number);
                all =
                        all == null
                                ? Pattern.begin(inner, skip)
                                : afterGroup ? all.next(inner) : any ? all.followedByAny(inner) : all.followedBy(inner);
            } else {
                String name = "e" + number[0]++;
                all =
                        all == null
                                ? Pattern.begin(name, skip)
                                : afterGroup ? all.next(name) : any ? all.followedByAny(name) : all.followedBy(name);
                all = all.where(new Fits(part));
            }
            if (group || part.get("plus").asBoolean()) {
                all = any ? all.oneOrMore().allowCombinations() : all.oneOrMore();
            }
            afterGroup = group;
        }
        return all;
    }

    /** Whether an event is of one of the types, satisfies all conditions, and compares with earlier events as it must. */
    private static final class Fits extends IterativeCondition<Event> {
        private final String[] types;
        private final Test[] tests;
        private final Against[] against;

        Fits(JsonNode step) {
            types = new String[step.get("types").size()];
            for (int k = 0; k < types.length; k++) {
                types[k] = step.get("types").get(k).asText();
            }
            tests = new Test[step.get("conditions").size()];
            for (int k = 0; k < tests.length; k++) {
                tests[k] = new Test(step.get("conditions").get(k));
            }
            against = new Against[step.get("against").size()];
            for (int k = 0; k < against.length; k++) {
                against[k] = new Against(step.get("against").get(k));
            }
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            boolean known = false;
            for (String type : types) {
                known |= type.equals(event.type);
            }
            if (!known) {
                return false;
            }
            for (Test test : tests) {
                if (!test.holds(event)) {
                    return false;
                }
            }
            for (Against comparison : against) {
                for (Event earlier : context.getEventsForPattern(comparison.step)) {
                    if (!comparison.holds(event, earlier)) {
                        return false;
                    }
                }
            }
            return true;
        }
    }

    /** One comparison of an attribute with that of an event of an earlier step; both are numbers. */
    private static final class Against implements Serializable {
        private final String step;
        private final int own;
        private final int other;
        private final double added;
        private final boolean less;
        private final boolean equal;
        private final boolean greater;

        Against(JsonNode comparison) {
            String operator = comparison.get(1).asText();
            step = "e" + comparison.get(2).asInt();
            own = names.indexOf(comparison.get(0).asText());
            other = names.indexOf(comparison.get(3).asText());
            if (own < 0 || other < 0) {
                throw new IllegalArgumentException("no such attribute: " + comparison);
            }
            added = comparison.get(4).asDouble();
            less = operator.contains("<");
            equal = operator.contains("=");
            greater = operator.contains(">");
        }

        boolean holds(Event event, Event earlier) {
            double value = ((Number) event.values[own]).doubleValue();
            double bound = ((Number) earlier.values[other]).doubleValue() + added;
            return value < bound ? less : value > bound ? greater : value == bound && equal;
        }
    }

    /** One comparison of an attribute with a constant. */
    private static final class Test implements Serializable {
        private final int column;
        private final boolean less;
        private final boolean equal;
        private final boolean greater;
        private final boolean isText;
        private final boolean isWhole;
        private final String text;
        private final long whole;
        private final double number;

        Test(JsonNode condition) {
            String operator = condition.get(1).asText();
            JsonNode constant = condition.get(2);
            column = names.indexOf(condition.get(0).asText());
            if (column < 0) {
                throw new IllegalArgumentException("no attribute " + condition.get(0));
            }
            less = operator.contains("<");
            equal = operator.contains("=");
            greater = operator.contains(">");
            isText = constant.isTextual();
            isWhole = constant.isIntegralNumber() && events[0].values[column] instanceof Long;
            text = constant.asText();
            whole = constant.asLong();
            number = constant.asDouble();
        }

        boolean holds(Event event) {
            Object value = event.values[column];
            if (isText) {
                if (!less && !greater) {
                    return text.equals(value);
                }
                int order = ((String) value).compareTo(text);
                return order < 0 ? less : order > 0 ? greater : equal;
            }
            if (isWhole) {
                long found = (Long) value;
                return found < whole ? less : found > whole ? greater : equal;
            }
            double found = ((Number) value).doubleValue();
            return found < number ? less : found > number ? greater : found == number && equal;
        }
    }

    /** Emits the events, and measures: CEP runs in the same thread, below `collect` and `emitWatermark`. */
    private static final class Reader implements SourceFunction<Event> {
        private volatile boolean cancelled;

        @Override
        public void run(SourceContext<Event> context) {
            Measured now = run;
            now.reader = Thread.currentThread();
            long cpu = SYSTEM.getProcessCpuTime();
            long begin = System.nanoTime();
            long end = begin + (long) (now.seconds * 1e9);
            long pause = (long) (now.seconds * 1e9 / SAMPLES);
            long nextSample = begin + pause;
            int position = 0;
            while (position < now.limit && !cancelled) {
                long time = System.nanoTime();
                if (time > end) {
                    break;
                }
                Event event = events[position++];
                context.collectWithTimestamp(event, event.time);
                if (position % BATCH == 0) {
                    context.emitWatermark(new Watermark(event.time - 1)); // others may have the same time
                    if (now.memory && time > nextSample) {
                        now.heap = Math.max(now.heap, heap());
                        nextSample = System.nanoTime() + pause;
                    }
                }
            }
            if (now.memory) {
                now.heap = Math.max(now.heap, heap());
            }
            context.emitWatermark(Watermark.MAX_WATERMARK);
            now.wall = (System.nanoTime() - begin) / 1e9;
            now.cpu = (SYSTEM.getProcessCpuTime() - cpu) / 1e9;
            now.read = position;
        }

        @Override
        public void cancel() {
            cancelled = true;
        }
    }

    /** Counts the matches, and keeps the positions of each, unless memory is measured: that is of the engine alone. */
    private static final class Keep extends PatternProcessFunction<Event, Integer> {
        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Integer> out) {
            Measured now = run;
            if (now.reader != Thread.currentThread()) {
                throw new IllegalStateException("the source and CEP are not in one task, times would be wrong");
            }
            int size = 0;
            for (List<Event> part : match.values()) {
                size += part.size();
            }
            int[] positions = new int[size];
            int last = -1;
            int k = 0;
            for (List<Event> part : match.values()) {
                for (Event event : part) {
                    positions[k++] = event.position;
                    last = Math.max(last, event.position);
                }
            }
            if (last != now.lastTrigger) { // all matches of an event come one after another
                now.lastTrigger = last;
                now.triggers++;
                now.ofTrigger = 0;
            }
            if (now.ofTrigger++ < now.most) {
                now.matches++;
                if (!now.memory) {
                    now.found.add(positions);
                }
            }
        }
    }

    /** Bytes in use after a collection. */
    private static long heap() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    /** Columns: name, kind, values. Texts are numbers of entries in a dictionary. */
    private static void readEvents(String path) throws IOException {
        names = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(path), 1 << 20))) {
            int columns = in.readInt();
            events = new Event[in.readInt()];
            for (int k = 0; k < events.length; k++) {
                events[k] = new Event();
                events[k].position = k;
                events[k].values = new Object[columns - 2];
            }
            for (int c = 0; c < columns; c++) {
                String name = in.readUTF();
                char kind = (char) in.readByte();
                String[] dictionary = new String[kind == 't' ? in.readInt() : 0];
                for (int k = 0; k < dictionary.length; k++) {
                    dictionary[k] = in.readUTF();
                }
                boolean attribute = !name.equals("type") && !name.equals("time");
                for (Event event : events) {
                    if (name.equals("time")) {
                        event.time = in.readLong();
                    } else if (name.equals("type")) {
                        event.type = dictionary[in.readInt()];
                    } else {
                        event.values[names.size()] =
                                kind == 't'
                                        ? dictionary[in.readInt()]
                                        : kind == 'i' ? (Object) in.readLong() : (Object) in.readDouble();
                    }
                }
                if (attribute) {
                    names.add(name);
                }
            }
        }
    }
}
