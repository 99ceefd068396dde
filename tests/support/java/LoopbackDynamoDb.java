import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** DynamoDB Local on the loopback alone: its own command line listens on every address. */
public class LoopbackDynamoDb {
    public static void main(String[] arguments) throws Exception {
        DynamoDBProxyServer dynamo = ServerRunner.createServerFromCommandLineArgs(arguments);
        Field jetty = DynamoDBProxyServer.class.getDeclaredField("server");
        jetty.setAccessible(true);
        for (Connector connector : ((Server) jetty.get(dynamo)).getConnectors()) {
            ((ServerConnector) connector).setHost("127.0.0.1");
        }
        dynamo.start();
        dynamo.join();
    }
}
